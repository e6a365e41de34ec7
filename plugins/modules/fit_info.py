#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fit_info
short_description: Tell whether gangs of pods would fit the cluster now
version_added: 0.1.0
description:
  - Answers, before anything is created, whether all pods of a gang would find a node at once, and if not, what exactly
    is missing, on what, and which change would help.
  - The demand is taken from the objects themselves (Pod, Job, Deployment, StatefulSet, JobSet, LeaderWorkerSet, the
    Kubeflow training jobs, RayCluster, RayJob, RayService, SparkApplication, AppWrapper and more) or from declared
    O(podsets). What a TrainJob leaves to its runtime is read there.
  - A gang is said to fit only if kube-scheduler places it in whatever order it takes the pods and whichever nodes it
    prefers. Where that holds only on certain nodes, RV(verdicts[].steering) names them.
  - Nothing is ever written to the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes.info
  - muster.kube._attributes.action_group
  - muster.kube._lease
author:
  - The muster.kube authors (@muster-kube)
options:
  definition:
    description:
      - The objects of one gang, as a mapping, a list of mappings, or YAML text with one or more documents.
    type: raw
    aliases:
      - inline
      - objects
  src:
    description:
      - A file with the objects of one gang, as YAML with one or more documents.
      - It is looked for as M(kubernetes.core.k8s) does it, in the role, beside the playbook and in C(files) there.
    type: path
  podsets:
    description:
      - The demand of one gang, declared instead of inferred. Needed for kinds this collection does not know.
      - When given together with objects, the declaration counts.
    type: list
    elements: dict
    suboptions: &podset
      name:
        description: Name of the podset, shown in the verdict.
        type: str
      count:
        description: How many pods.
        type: int
        default: 1
      requests:
        description: What each pod asks for, as Kubernetes quantities by resource name.
        type: dict
      limits:
        description: The pods' limits; they count against ResourceQuotas and stand in for missing requests.
        type: dict
      spec:
        description:
          - A pod specification; its node selector, tolerations, affinity, spread constraints, host ports and volumes
            are considered, and the requests of its containers where O(podsets[].requests) says nothing.
        type: dict
      labels:
        description: Labels of the pods, for affinity and spread selectors.
        type: dict
  name:
    description:
      - Name of the gang in the verdict. Defaults to the name of its first object.
    type: str
  namespace:
    description:
      - Namespace of the gang, and of those in O(gangs) that name none.
      - Defaults to the namespace written in the objects, else V(default).
    type: str
  gangs:
    description:
      - Several gangs, considered in this order. Takes the place of O(definition), O(src), O(podsets) and O(name).
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the gang in the verdict. Defaults to the name of its first object.
        type: str
      namespace:
        description: Namespace of the gang.
        type: str
      definition:
        description: The objects of the gang.
        type: raw
        aliases:
          - inline
          - objects
      src:
        description: A file with the objects of the gang.
        type: path
      podsets:
        description: The demand of the gang, declared instead of inferred.
        type: list
        elements: dict
        suboptions: *podset
  cumulative:
    description:
      - Whether a gang that fits takes its place before the next one is considered. With V(false) each is judged alone.
    type: bool
    default: true
  advice:
    description:
      - Whether to work out what would make a waiting gang fit. Each piece of advice is tried on the snapshot first.
    type: bool
    default: true
  queue:
    description:
      - The queue of the quota trees that the gangs would name. Without it, that of their namespace.
    type: str
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
notes:
  - What cannot be judged from outside, such as dynamic resource claims, volumes bound at scheduling time, other
    schedulers, scheduling gates and mutating webhooks, is listed in RV(verdicts[].not_modelled), and RV(verdicts[].how)
    is then V(unproven).
  - Preemption is never counted on. Pods that could be preempted are named in RV(verdicts[].may_preempt).
  - An account that may not list nodes and pods gets an answer about the ResourceQuotas and LimitRanges of the
    namespace only.
seealso:
  - plugin: muster.kube.verdict_text
    plugin_type: filter
  - plugin: muster.kube.podsets
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Would four workers with two GPUs each fit now?
  muster.kube.fit_info:
    namespace: default
    name: training
    podsets:
      - name: worker
        count: 4
        requests:
          cpu: "8"
          memory: 32Gi
          nvidia.com/gpu: 2
  register: answer

- name: Show the answer in words
  ansible.builtin.debug:
    msg: "{{ answer.verdicts | map('muster.kube.verdict_text') | list }}"

- name: Would these two jobs fit one after the other?
  muster.kube.fit_info:
    namespace: default
    gangs:
      - name: first
        definition:
          apiVersion: batch/v1
          kind: Job
          metadata:
            name: first
          spec:
            parallelism: 2
            completions: 2
            template:
              spec:
                restartPolicy: Never
                containers:
                  - name: main
                    image: registry.example.com/train:1
                    resources:
                      requests:
                        cpu: 500m
      - name: second
        podsets:
          - count: 2
            requests:
              cpu: 500m
"""

RETURN = r"""
quota_as_of:
  description: >-
    Of which moment the amounts of quota trees are, where this account may not list the records of all namespaces and a
    dispatcher published them. Otherwise none.
  returned: success
  type: str
  sample: null
fits:
  description: Whether every gang fits.
  returned: success
  type: bool
  sample: false
verdicts:
  description: One verdict for each gang, in the order given.
  returned: success
  type: list
  elements: dict
  contains:
    gang:
      description: Name of the gang.
      type: str
      sample: raycluster-complete-1
    namespace:
      description: Namespace of the gang.
      type: str
      sample: default
    answer:
      description: V(fits), V(waits), or V(never) if it would not even fit on empty nodes.
      type: str
      sample: waits
    how:
      description: >-
        How it fits, V(now), V(steered) to the named nodes, by V(borrowing) quota, or V(unproven). For a gang that waits
        V(after_reclaim) if others are evicted or shrink for it, which dispatchers write into records. Otherwise none.
      type: str
      sample: now
    reason:
      description:
        - The main reason if it does not fit. Of quota trees it is V(quota), V(queue_unknown), V(queue_forbidden),
          V(queue_held), V(user_limit), V(budget_spent), V(flavor_unreachable), V(quota_unreadable) or
          V(quota_not_visible). Of gangs that wait already a dispatcher may have said V(nominated) or V(quota_reserved).
      type: str
      sample: insufficient
    detail:
      description: The object behind the reason, where there is one.
      type: str
      sample: my-claim
    layers:
      description:
        - What was checked in turn, the quota trees where there are any, the namespace's rules, the node filters and the
          slots, each with C(passed) and numbers.
        - The layer C(quota) tells of each tree C(queue), C(answer), C(reason), C(levels) with the numbers of all queues
          from the gang's own up to the root, C(borrowers), and C(reached). That is the limit besides amounts for which
          a gang waits, with C(kind) (C(running), C(pending), C(resources) or C(budget)), C(queue), C(resource), what is
          C(used), the C(limit), and when it is C(reset), if it is.
        - Amounts are Kubernetes quantities.
      type: list
      elements: dict
      sample:
        - layer: slots
          passed: false
          totals:
            cpu:
              requested: "3"
              free: 1950m
              short: 1050m
    advice:
      description: Changes after which the gang would fit, each with C(change), C(text) and its details.
      type: list
      elements: dict
      sample:
        - change: pods_end
          text: "wait for, or end, 1 pod(s): default/busy"
          pods:
            - default/busy
    steering:
      description: Host names to which a podset must be confined by node affinity for the verdict to hold.
      type: dict
      sample:
        worker:
          - node-1
          - node-2
    placement:
      description: One possible placement, pods per node for each podset.
      type: dict
      sample:
        worker:
          node-1: 2
    not_modelled:
      description: What the verdict does not take into account.
      type: list
      elements: str
      sample:
        - dra_claims
    may_preempt:
      description: Pods of lower priority on nodes the gang may use.
      type: list
      elements: str
      sample: []
    eta:
      description: When the gang could start; always none for now.
      type: float
      sample: null
    eta_reason:
      description: Why there is no estimate.
      type: str
      sample: no record of earlier gangs to estimate from
snapshot:
  description:
    - What the verdicts rest on, the number of nodes and unfinished pods read, and notes on what could not be read.
  returned: success
  type: dict
  sample:
    nodes: 3
    pods: 12
    notes: []
seconds:
  description: Time spent listing, decoding and deciding.
  returned: success
  type: dict
  sample:
    list: 0.03
    decode: 0.01
    decide: 0.01
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: read
    object: "Job default/train: spec.template.spec.containers[0].resources.requests.cpu"
    cause: "quantity 'lots': it does not begin with a number, such as 2, 1.5 or 500m"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.fit_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
