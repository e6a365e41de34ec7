# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each checkpoint of elastic gangs as an event, for ansible-rulebook."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

DOCUMENTATION = r"""
---
short_description: Tell each checkpoint of elastic gangs
description:
  - An ansible-rulebook event source. Tells each checkpoint that is safely stored, as trainers of elastic gangs and
    M(muster.kube.checkpoint) report it, for as long as the rulebook runs.
  - A checkpoint is told once. One that has no later step than the one before it is none, as for dispatchers. What was
    reported while the server was away, or in a gap of the watch, is told afterwards.
  - An event has C(gang), C(namespace), C(step) and C(time). C(asked) says whether the trainer was asked to save.
    C(resize_waits) says whether a resize waits for a checkpoint, and C(resize) tells its C(from), C(to), C(why) and
    C(since); it is null where none waits, or the account may not read the gang's record.
options:
  namespaces:
    description: Only gangs of these namespaces, each with a watch of its own. All when not given.
    type: list
    elements: str
  existing:
    description: Whether the last checkpoint of each gang is told when the source begins.
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
- name: Resize at checkpoints
  hosts: localhost
  sources:
    - muster.kube.checkpoints:
        namespaces:
          - research
  rules:
    - name: A resize has waited for this
      condition: event.resize_waits == true
      action:
        run_playbook:
          name: muster.kube.elastic
"""

# ansible-rulebook knows no collections when it runs a source, so the root of this one is added to where Python looks.
_ROOT = str(pathlib.Path(__file__).resolve().parents[7])
_FACE = "ansible_collections.muster.kube.plugins.module_utils._face.event_sources.checkpoints"


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    """Put events into the queue until the task is cancelled."""
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)
    await importlib.import_module(_FACE).serve_checkpoints(queue, args)
