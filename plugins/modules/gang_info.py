#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gang_info
short_description: Tell where gangs stand, why they wait, and what failed
version_added: 0.1.0
description:
  - Tells for each gang its phase, its place in the queue, the last verdict on it in words, how long it was in each
    phase, where its pods are, and of the container that failed first the exit code and the last lines it wrote.
  - Nothing is ever written to the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes.info
  - muster.kube._attributes.action_group
  - muster.kube._lease
author:
  - The muster.kube authors (@muster-kube)
options:
  name:
    description:
      - Only gangs of this name.
    type: str
  namespace:
    description:
      - Only gangs of this namespace. An account that may not list records of the whole cluster must give it, and places
        in the queue are then counted within the namespace.
    type: str
  queue:
    description:
      - Only gangs of this queue.
    type: str
  state:
    description:
      - Only gangs in one of these phases.
    type: list
    elements: str
    choices:
      - queued
      - dispatching
      - dispatched
      - running
      - undoing
      - evicting
      - resizing
      - rescaling
      - suspended
      - complete
      - failed
      - unknown
  label_selectors:
    description:
      - Only gangs whose records match all of these label selectors.
    type: list
    elements: str
    aliases:
      - label_selector
  log_lines:
    description:
      - How many of the last lines of the failed container to return. With V(0) no log is read.
    type: int
    default: 20
  capacity:
    description:
      - Whether to tell what all nodes have together, which M(muster.kube.report) draws. All nodes are listed for it.
    type: bool
    default: false
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: muster.kube.gang
  - module: muster.kube.dispatch
"""

EXAMPLES = r"""
- name: Who waits in the queue of the research team, and for what?
  muster.kube.gang_info:
    queue: research
    state:
      - queued
  register: waiting

- name: Show the reasons
  ansible.builtin.debug:
    msg: "{{ waiting.gangs | sort(attribute='position') | map(attribute='verdict_text') | list }}"

- name: What did the failed container say?
  muster.kube.gang_info:
    namespace: default
    name: train
    log_lines: 50
"""

RETURN = r"""
gangs:
  description: The gangs in question, by namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the gang.
      type: str
      sample: train
    namespace:
      description: Namespace of the gang.
      type: str
      sample: default
    uid:
      description: Uid of its record.
      type: str
      sample: 4f1f3c32-7a0a-4f5e-9f0e-6a1f6f2f9a11
    store:
      description: Whether its record is a V(configmap) or an V(appwrapper).
      type: str
      sample: configmap
    queue:
      description: Its queue.
      type: str
      sample: research
    labels:
      description: Labels of its record.
      type: dict
      sample:
        muster.kube/record: gang
    phase:
      description: Its phase.
      type: str
      sample: queued
    position:
      description: >-
        Its place in its own queue of the quota tree, the first by name if there are several, counted from 1. Without a
        tree all gangs are one queue. None for gangs that do not wait or pause after a requeue.
      type: int
      sample: 2
    attempt:
      description: Number of the present or next attempt.
      type: int
      sample: 1
    allotment:
      description: The size that the present attempt of an elastic gang was started with.
      type: int
      sample: null
    resize:
      description: >-
        The last change of size of an elastic gang: its sizes before (C(from)) and after (C(to)), C(method), C(why),
        since when (C(since)), and how far it has come (C(step)), which is C(draining), C(starting), C(verified),
        C(rolled_back) or C(parked). One that waits for a checkpoint is C(planned), and C(missed) when none came. Where
        work was lost by it, C(lost_seconds) tells how much, as far as the trainer had told. Null when there was none.
      type: dict
      sample: null
    sizes:
      description: >-
        Which sizes an elastic gang held, and since when, the last 40 entries; empty for others. An entry has
        the server's time (C(at)), the C(size) that room was held for from then on, 0 for none, with its GPUs (C(gpus)),
        and whether all its pods had a node from then on (C(running)). Where a change of size began then, C(resize) has
        C(from), C(to), C(method), C(why) and C(lost_seconds); until it is over the larger of both sizes is held.
      type: list
      elements: dict
      sample:
        - at: "2026-01-01T00:00:01.000000Z"
          size: 3
          gpus: 3
          running: false
          resize: null
    requeues:
      description: How often it went back to the queue for too few pods or a failed item.
      type: int
      sample: 0
    lost_races:
      description: How often it went back because others took the room between the verdict and the start.
      type: int
      sample: 0
    not_before:
      description: Before this time it is not asked again.
      type: str
      sample: null
    submitted:
      description: When its record was created.
      type: str
      sample: "2026-01-01T00:00:00Z"
    verdict:
      description: The last verdict on it, as RV(muster.kube.fit_info#module:verdicts). None before the first.
      type: dict
    verdict_text:
      description: The verdict in words.
      type: str
      sample: "train: waits, resources are short"
    quota:
      description: >-
        What quota trees say to a waiting gang whose record does not tell it, because no dispatcher looked at it yet
        that sees what is used. It is the layer C(quota) of a verdict, with C(advice), C(text) and C(as_of), which tells
        of which moment the amounts are where a dispatcher published them. Otherwise none. Its reasons are V(quota),
        V(queue_unknown), V(queue_forbidden), V(queue_held), V(user_limit), V(budget_spent), V(quota_unreadable) and
        V(quota_not_visible). Verdicts of dispatchers also have V(nominated), with C(how) V(after_reclaim),
        V(quota_reserved) and V(flavor_unreachable).
      type: dict
      sample: null
    spec:
      description: What was asked for, without the objects themselves.
      type: dict
      sample:
        priority: 0
        suspended: false
        objects:
          - apiVersion: batch/v1
            kind: Job
            name: train
        podsets:
          - name: train
            count: 2
            requests:
              cpu: 500m
        elastic: null
    problem:
      description: What is wrong with the record, when it cannot be read.
      type: str
      sample: null
    timeline:
      description: >-
        The last changes of phase, each with the seconds it stayed in it, of the last one until now. A wait that is over
        has the essence of the last verdict before its end in C(waited_for).
      type: list
      elements: dict
      sample:
        - phase: queued
          at: "2026-01-01T00:00:00Z"
          reason: Submitted
          message: ""
          seconds: 12.5
          waited_for:
            answer: waits
            reason: insufficient
            layers:
              - layer: slots
                totals:
                  nvidia.com/gpu:
                    short: "4"
    objects:
      description: The objects of a started gang.
      type: list
      elements: dict
      sample:
        - apiVersion: batch/v1
          kind: Job
          namespace: default
          name: train
    pods:
      description: Its pods that carry the gang's label, with podset, phase, node, restarts, and why one does not run.
      type: list
      elements: dict
      sample:
        - name: train-0-x7k2p
          podset: train
          phase: Running
          node: node-1
          restarts: 0
          waiting: null
    restarts:
      description: Restarts of all its containers.
      type: int
      sample: 0
    failure:
      description: >-
        The container that failed first, with exit code and the last lines of its log, or why the log cannot be read.
        None when no container failed.
      type: dict
      sample:
        pod: train-0-x7k2p
        podset: train
        node: node-1
        container: main
        exit_code: 1
        reason: Error
        finished_at: "2026-01-01T00:00:30Z"
        log:
          - out of memory
        log_problem: null
capacity:
  description: What all nodes that take pods have together, by resource. None unless O(capacity=true), or when this
    account may not list nodes.
  returned: success
  type: dict
  sample:
    cpu: "64"
    nvidia.com/gpu: "8"
position_scope:
  description: Whether places are counted among the gangs of the whole V(cluster) or of the V(namespace) only.
  returned: success
  type: str
  sample: cluster
notes:
  description: What could not be read.
  returned: success
  type: list
  elements: str
  sample: []
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: list
    object: configmaps
    cause: no right to do that (HTTP 403 Forbidden)
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.gang_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
