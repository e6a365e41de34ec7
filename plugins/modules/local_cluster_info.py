#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: local_cluster_info
short_description: Tell which local clusters there are and how they are
version_added: 0.1.0
description:
  - Lists the clusters that M(muster.kube.local_cluster) made with the same O(cache), running or not.
extends_documentation_fragment:
  - muster.kube._attributes.info
author:
  - The muster.kube authors (@muster-kube)
options:
  name:
    description:
      - Name of one cluster. When not given, all are listed.
    type: str
  cache:
    description:
      - Directory in which the clusters are kept.
      - When not given, the environment variable E(MUSTER_CACHE) is used, and V(~/.cache/muster-kube) without that.
    type: path
requirements:
  - python >= 3.11
  - kubernetes
seealso:
  - module: muster.kube.local_cluster
"""

EXAMPLES = r"""
- name: All clusters of this machine
  muster.kube.local_cluster_info:
  register: known

- name: Show those that have a process that ended
  ansible.builtin.debug:
    msg: "{{ item.name }} is incomplete"
  loop: "{{ known.clusters }}"
  loop_control:
    label: "{{ item.name }}"
  when: item.components.values() | rejectattr('running') | list | length > 0
"""

RETURN = r"""
clusters:
  description: The clusters, each with the keys that M(muster.kube.local_cluster) returns. Empty when there is none.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the cluster.
      type: str
      returned: success
      sample: muster
    kubeconfig:
      description: Path of the administrator's kubeconfig.
      type: str
      returned: success
      sample: /home/me/.cache/muster-kube/clusters/muster/kubeconfig
    server:
      description: Address of the API server.
      type: str
      returned: success
      sample: https://127.0.0.1:21347
    version:
      description: Version of Kubernetes.
      type: str
      returned: success
      sample: v1.36.3
    components:
      description: The processes by name, each with its process id, log file, ports, and whether it runs.
      type: dict
      returned: success
      sample:
        etcd:
          pid: null
          log: /home/me/.cache/muster-kube/clusters/muster/logs/etcd.log
          ports:
            client: 27950
          running: false
    nodes:
      description: How many nodes there are and how many are ready; zero when the API server does not run.
      type: dict
      returned: success
      sample:
        count: 2
        ready: 2
        groups:
          gpu:
            count: 2
            ready: 2
    operators:
      description: Operators of the cluster.
      type: list
      elements: str
      returned: success
      sample:
        - kuberay
    directory:
      description: Directory with everything that belongs to the cluster.
      type: str
      returned: success
      sample: /home/me/.cache/muster-kube/clusters/muster
    kubectl:
      description: Path of a kubectl of the same version.
      type: str
      returned: success
      sample: /home/me/.cache/muster-kube/programs/kubernetes-846a305bb62bf3c2/kubectl
    registry:
      description: Address of the image registry. Null when there is none.
      type: str
      returned: success
      sample: 127.0.0.1:21348
    audit_log:
      description: File in which the API server writes down what it was asked to change. Null when there is none.
      type: str
      returned: success
      sample: /home/me/.cache/muster-kube/clusters/muster/logs/audit.log
    real_node:
      description:
        - The real node with name, address, socket of its containerd, directory of logs, and the address at which its
          pods reach the API server, or null.
      type: dict
      returned: success
      sample:
        name: real-0
        address: 10.213.0.1
        containerd: /home/me/.cache/muster-kube/clusters/muster/data/containerd/containerd.sock
        logs: /home/me/.cache/muster-kube/clusters/muster/data/pod-logs
        service_address: 10.96.0.1
    programs:
      description: Always empty here; which programs a run uses is only known to that run.
      type: dict
      returned: success
      sample: {}
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.local_cluster_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
