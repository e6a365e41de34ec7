#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_build_info
short_description: Tell which images were built, with their packages and logs
version_added: 0.1.0
description:
  - Tells for each build what was wanted, where it stands, and when it is over what came of it.
  - Nothing is ever written to the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes.info
  - muster.kube._attributes.action_group
author:
  - The muster.kube authors (@muster-kube)
options:
  namespace:
    description:
      - Only builds of this namespace. An account that may not list ConfigMaps of the whole cluster must give it.
    type: str
  name:
    description:
      - Only the build with this record.
    type: str
  spec_hash:
    description:
      - Only builds of the stack with this hash, or one that begins so.
    type: str
  image:
    description:
      - Only builds of this image, with or without its tag.
    type: str
  label_selectors:
    description:
      - Only builds whose records match all of these label selectors.
    type: list
    elements: str
    aliases:
      - label_selector
  log:
    description:
      - Whether to return the logs.
    type: bool
    default: true
requirements:
  - kubernetes >= 24.2.0
seealso:
  - module: muster.kube.image_build
"""

EXAMPLES = r"""
- name: All builds of a namespace
  muster.kube.image_build_info:
    namespace: builds
    log: false
  register: known
"""

RETURN = r"""
builds:
  description: The builds, sorted by namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the record.
      type: str
      sample: build-0123456789
    namespace:
      description: Its namespace.
      type: str
      sample: builds
    image:
      description: Full name of the image.
      type: str
      sample: registry.example.com/team/bench:sha-2f5c0d6e1a9b3c4d5e6f
    spec_hash:
      description: Hash of the stack.
      type: str
      sample: 2f5c0d6e1a9b3c4d5e6f
    specification:
      description: The stack. Files of a large stack are told by digest and size.
      type: dict
      sample:
        base: docker.io/library/debian:12
    attempt:
      description: How often it was tried.
      type: int
      sample: 1
    problem:
      description: What is wrong with the record, when it cannot be read.
      type: str
      sample: null
    phase:
      description: V(pending), V(running), V(succeeded) or V(failed).
      type: str
      sample: succeeded
    waiting_for:
      description: What a build waits for that has not started.
      type: str
      sample: null
    reason:
      description: Why it failed.
      type: str
      sample: null
    message:
      description: The reason in words.
      type: str
      sample: ""
    finished:
      description: When it ended.
      type: str
      sample: "2026-01-31T12:00:00Z"
    ttl:
      description: How many seconds the record is kept after that. None means for ever.
      type: float
      sample: null
    outcome:
      description: What M(muster.kube.image_build) returned for it, or None while it is not over.
      type: dict
      sample:
        digest: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        reason: null
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: list
    object: configmaps
    cause: no right to do that (HTTP 403 Forbidden)
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.image_build_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
