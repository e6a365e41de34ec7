# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each change of objects in a Kubernetes cluster as an event, for ansible-rulebook."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

DOCUMENTATION = r"""
---
short_description: Tell each change of objects in a Kubernetes cluster
description:
  - An ansible-rulebook event source. Lists the objects of the given kinds, and then tells each change of them, for as
    long as the rulebook runs.
  - A watch that was cut goes on where it was. After a gap that the server cannot fill (410) the objects are listed
    anew, and what the list says is compared with what was told, so that all that changed meanwhile is told, deletions
    too. Nothing is told twice for the same version of an object.
  - The server may be away for any time. What it refuses, and what goes wrong before the first list, ends the rulebook
    with a message.
  - Of each object a few names and a fingerprint are remembered, so that memory is bounded by the number of objects. An
    event is read from the server only when the rulebook has taken the one before it.
  - An event has C(type) (C(ADDED), C(MODIFIED) or C(DELETED)), C(api_version), C(kind), C(namespace), C(name), C(uid),
    C(resource_version) and C(object). It tells how the object stands, C(phase), C(conditions) (a mapping),
    C(suspended), and C(outcome), which is C(succeeded) or C(failed) for all kinds that end and are known to this
    collection. C(before) has these four as they were, null for a new object. The phase of a gang's record is that of
    the gang.
  - C(existing) is true for what was there when the source began, C(missed) for what was found by a list after a gap.
    Of what was deleted in a gap the C(object) has only its names and labels.
  - Fields that hold Secrets are never told.
options:
  kinds:
    description:
      - What to watch. All options below that can be said of one kind can be said for all of them beside this one too.
      - A kind of an operator that is not installed is looked for each minute.
    type: list
    elements: dict
    required: true
    suboptions:
      api_version:
        description: The apiVersion of the kind.
        type: str
        default: v1
      kind:
        description: The kind, or its plural.
        type: str
        required: true
      namespaces:
        description: Only objects of these namespaces; an empty list means all.
        type: list
        elements: str
      label_selectors:
        description: Only objects with these labels.
        type: list
        elements: str
      field_selectors:
        description: Only objects with these fields.
        type: list
        elements: str
      types:
        description: Only these changes.
        type: list
        elements: str
        choices:
          - ADDED
          - MODIFIED
          - DELETED
      fields:
        description: Which fields are in C(object).
        type: list
        elements: str
      when_changed:
        description: A change is told only when one of these fields has another value.
        type: list
        elements: str
  namespaces:
    description:
      - Only objects of these namespaces, each with a watch of its own. All when not given. Kinds without namespaces are
        watched all the same.
    type: list
    elements: str
  label_selectors:
    description: Only objects with these labels.
    type: list
    elements: str
  field_selectors:
    description: Only objects with these fields.
    type: list
    elements: str
  types:
    description: Only these changes; all when not given.
    type: list
    elements: str
    choices:
      - ADDED
      - MODIFIED
      - DELETED
  fields:
    description:
      - Which fields are in C(object), written like C(status.phase). All when not given. A dot in a name gets a
        backslash before it.
    type: list
    elements: str
  when_changed:
    description:
      - A change is told only when one of these fields has another value. C(phase), C(conditions), C(suspended) and
        C(outcome) mean what events tell under these names. Every change when not given.
    type: list
    elements: str
  existing:
    description:
      - Whether the objects that are there when the source begins are told, as C(ADDED). A rulebook that was away sees
        by them what happened meanwhile.
    type: bool
    default: true
  kubeconfig:
    description:
      - Path to a kubeconfig, or its contents as a mapping. Without it C(K8S_AUTH_KUBECONFIG), the account of
        the pod, C(KUBECONFIG) and C(~/.kube/config) are tried, as by the modules of kubernetes.core.
      - Each of the connection options can be set by the environment too, as C(K8S_AUTH_) and its name.
    type: raw
  context:
    description: The context of the kubeconfig to use.
    type: str
  host:
    description: Address of the API server.
    type: str
  api_key:
    description: Token to authenticate with.
    type: str
  username:
    description: Name of the user to authenticate as.
    type: str
  password:
    description: Password of that user.
    type: str
  validate_certs:
    description: Whether to check the certificate of the API server.
    type: bool
    aliases:
      - verify_ssl
  ca_cert:
    description: Path to the certificate of the authority that signed that of the API server.
    type: path
    aliases:
      - ssl_ca_cert
  client_cert:
    description: Path to a client certificate.
    type: path
    aliases:
      - cert_file
  client_key:
    description: Path to the key of the client certificate.
    type: path
    aliases:
      - key_file
  proxy:
    description: Address of an HTTP proxy.
    type: str
  no_proxy:
    description: Hosts that are reached without the proxy, with commas between them.
    type: str
  proxy_headers:
    description: Headers for the proxy (C(proxy_basic_auth), C(basic_auth), C(user_agent)).
    type: dict
  persist_config:
    description: Whether refreshed credentials are written to the kubeconfig.
    type: bool
  impersonate_user:
    description: User to act as.
    type: str
  impersonate_groups:
    description: Groups to act as.
    type: list
    elements: str
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
"""

EXAMPLES = r"""
- name: Tell me when GPUs may have become free
  hosts: localhost
  sources:
    - name: gangs
      muster.kube.watch:
        existing: false
        label_selectors:
          - muster.kube/gang
        types:
          - MODIFIED
          - DELETED
        when_changed:
          - outcome
        fields:
          - metadata.labels
        kinds:
          - api_version: batch/v1
            kind: Job
          - api_version: kubeflow.org/v1
            kind: PyTorchJob
  rules:
    - name: A job is over
      condition: event.type == "DELETED" or event.outcome == "succeeded" or event.outcome == "failed"
      action:
        debug:
          msg: "{{ event.kind }} {{ event.namespace }}/{{ event.name }} holds nothing any more"

- name: Tell me of nodes that come, go, and change
  hosts: localhost
  sources:
    - muster.kube.watch:
        kinds:
          - kind: Node
            when_changed:
              - spec.unschedulable
              - status.allocatable
            fields:
              - status.allocatable
  rules:
    - name: A node changed
      condition: event.existing == false
      action:
        debug:
          msg: "{{ event.type }} {{ event.name }}"
"""

# ansible-rulebook knows no collections when it runs a source, so the root of this one is added to where Python looks.
_ROOT = str(pathlib.Path(__file__).resolve().parents[7])
_FACE = "ansible_collections.muster.kube.plugins.module_utils._face.event_sources.watch"


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    """Put events into the queue until the task is cancelled."""
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)
    await importlib.import_module(_FACE).serve_watch(queue, args)
