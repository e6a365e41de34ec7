#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inspection_info
short_description: Tell what is known about inspections
version_added: 0.1.0
description:
  - Returns the specification, phase, results and logs of inspections that M(muster.kube.inspection) made in a cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes.info
  - muster.kube._attributes.action_group
author:
  - The muster.kube authors (@muster-kube)
options:
  namespace:
    description:
      - Namespace of the inspections. All namespaces when not given.
    type: str
  inspection_id:
    description:
      - Only the inspection of this name.
    type: str
    aliases:
      - name
  identifier:
    description:
      - Only inspections with this identifier.
    type: str
  label_selectors:
    description:
      - Only inspections whose labels match.
    type: list
    elements: str
    aliases:
      - label_selector
  phase:
    description:
      - Only inspections in one of these phases.
    type: list
    elements: str
    choices:
      - Pending
      - Running
      - Succeeded
      - Failed
      - Cancelled
  limit:
    description:
      - At most so many inspections, the ones made last. All when not given.
    type: int
  logs:
    description:
      - Whether to return the logs of build and runs. They can be large.
    type: bool
    default: false
  log_bytes:
    description:
      - How much of the log of a pod that still runs is returned, from its end.
    type: int
    default: 65536
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
notes:
  - An inspection appears when its image is there. Builds are told by M(muster.kube.image_build_info).
seealso:
  - module: muster.kube.inspection
  - module: muster.kube.image_build_info
"""

EXAMPLES = r"""
- name: All inspections of one identifier
  muster.kube.inspection_info:
    namespace: default
    identifier: matmul
  register: answer

- name: Show their phases
  ansible.builtin.debug:
    msg: "{{ answer.inspections | items2dict(key_name='inspection_id', value_name='phase') }}"

- name: The last inspection that failed, with its logs
  muster.kube.inspection_info:
    namespace: default
    phase: Failed
    limit: 1
    logs: true
"""

RETURN = r"""
inspections:
  description: The inspections by namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    inspection_id:
      description: Name of the inspection.
      type: str
      sample: inspection-matmul-0b5c1d2e3f
    namespace:
      description: Namespace of the inspection.
      type: str
      sample: default
    labels:
      description: Its labels.
      type: dict
      sample:
        muster.kube/identifier: matmul
    problem:
      description: What is wrong with the record, when it cannot be read.
      type: str
      sample: null
    phase:
      description: V(Pending), V(Running), V(Succeeded), V(Failed) or V(Cancelled).
      type: str
      sample: Succeeded
    status:
      description: >-
        Where C(build) and C(run) stand. C(build) is an entry of
        RV(muster.kube.image_build_info#module:builds), or none for a ready image.
      type: dict
      sample:
        build: null
        run:
          phase: succeeded
          reason: null
          message: ""
          waiting_for: null
    specification:
      description: What was asked for, C(run), C(script) and C(stack).
      type: dict
      sample:
        run:
          repetitions: 5
        script: echo hello
        stack: null
    attempt:
      description: How many times it was tried.
      type: int
      sample: 1
    runs:
      description: One result for each repetition, as RV(muster.kube.inspection#module:runs).
      type: list
      elements: dict
      sample: []
    placements:
      description: Asked and found hardware, as RV(muster.kube.inspection#module:placements).
      type: list
      elements: dict
      sample: []
    summary:
      description: The results in numbers, as RV(muster.kube.inspection#module:summary).
      type: dict
      sample:
        succeeded: 5
        failed: 0
        wall_seconds: null
    hwinfo:
      description: The hardware of the first repetition.
      type: dict
      sample: null
    placement_verified:
      description: Whether all repetitions had the hardware asked for.
      type: bool
      sample: true
    image:
      description: The image the script ran in.
      type: str
      sample: registry.example.com/python:3.12
    image_digest:
      description: Its digest.
      type: str
      sample: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    dockerfile:
      description: The Dockerfile of the stack. None for a ready image.
      type: str
      sample: null
    spec_hash:
      description: The hash of the stack. None for a ready image.
      type: str
      sample: null
    run_hash:
      description: The hash of everything that shapes the results.
      type: str
      sample: 0b5c1d2e3f9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c
    reason:
      description: Why it failed.
      type: str
      sample: null
    message:
      description: The reason in words.
      type: str
      sample: null
    created:
      description: When it was made.
      type: str
      sample: "2026-01-01T00:00:00Z"
    finished:
      description: When its results were stored.
      type: str
      sample: "2026-01-01T00:00:30Z"
    ttl:
      description: How many seconds after that it may be removed. None for never.
      type: float
      sample: null
    logs:
      description: >-
        The log of C(build), and C(runs) with C(index), C(stdout), C(stderr) and, as long as it runs, C(pod). None
        unless O(logs=true).
      type: dict
      sample:
        build: null
        runs:
          - index: 0
            stdout: hello
            stderr: ""
            pod: null
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: list
    object: configmaps
    cause: no right to do that (HTTP 403 Forbidden)
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.inspection_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
