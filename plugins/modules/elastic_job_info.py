#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: elastic_job_info
short_description: Tell where elastic jobs stand, and which sizes they have and may have
version_added: 0.1.0
description:
  - Tells of each elastic job (M(muster.kube.elastic_job), or M(muster.kube.gang) with
    O(muster.kube.gang#module:elastic)) what M(muster.kube.gang_info) tells of a gang, its range, the size that it has,
    the last change of it, and the sizes beside it. Other gangs are left out.
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
      - Only jobs of this name.
    type: str
  namespace:
    description:
      - Only jobs of this namespace. An account that may not list records of the whole cluster must give it, and places
        in the queue are then counted within the namespace.
    type: str
  queue:
    description:
      - Only jobs of this queue.
    type: str
  state:
    description:
      - Only jobs in one of these phases.
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
      - Only jobs whose records match all of these label selectors.
    type: list
    elements: str
    aliases:
      - label_selector
  log_lines:
    description:
      - How many of the last lines of the failed container to return. With V(0) no log is read.
    type: int
    default: 20
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: muster.kube.elastic_job
  - module: muster.kube.gang_info
  - module: muster.kube.dispatch
"""

EXAMPLES = r"""
- name: Which sizes do the jobs of the research team have?
  muster.kube.elastic_job_info:
    queue: research
    state:
      - running
  register: found

- name: Show them
  ansible.builtin.debug:
    msg: "{{ item.name }} has {{ item.allotment }} of {{ item.range.sizes | max }}"
  loop: "{{ found.jobs }}"
  loop_control:
    label: "{{ item.name }}"

- name: Why was the last size changed?
  muster.kube.elastic_job_info:
    namespace: default
    name: tune
"""

RETURN = r"""
jobs:
  description: The elastic jobs in question, by namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
      sample: tune
    namespace:
      description: Namespace of the job.
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
      description: Its place in the queue, counted from 1. None for jobs that do not wait or pause after a requeue.
      type: int
      sample: 2
    attempt:
      description: Number of the present or next attempt.
      type: int
      sample: 1
    range:
      description: >-
        The sizes it may have (C(sizes)), the GPUs that are meant (C(resource)), the podset that has the size
        (C(podset)), and what a size counts (C(axis)).
      type: dict
      sample:
        sizes:
          - 2
          - 3
          - 4
        resource: nvidia.com/gpu
        podset: tune/master
        axis: per_pod
    allotment:
      description: >-
        The size that the present attempt was started with. Null while it waits.
      type: int
      sample: 3
    method:
      description: >-
        How its size is changed, as its kind and the server allow it. With V(scale) its object gets another number of
        pods; with V(suspend) its object is suspended, and goes on with other pods; with V(recreate) its objects are
        removed and created again. Dispatchers fall back to V(recreate) where anything speaks against the others.
      type: str
      sample: recreate
    resize:
      description: >-
        The last change of its size: the sizes before (C(from)) and after (C(to)), C(method), C(why), since when
        (C(since)), and how far it has come (C(step)), which is C(draining), C(starting), C(verified), C(rolled_back) or
        C(parked). Null when there was none.
      type: dict
      sample:
        from: 3
        to: 4
        method: recreate
        why: there is room for it
        since: "2026-01-01T00:10:00Z"
        step: verified
    sizes:
      description: >-
        Which sizes it held, and since when, the last 40 entries; empty before its first start. An entry has
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
    progress:
      description: >-
        How far its training is, or was when it ended, as RV(muster.kube.checkpoint#module:progress). Null while it
        does not run, and until somebody told.
      type: dict
      sample:
        step: 1200
        total: 9000
        share: 0.1333
        speeds:
          "4": 2.05
        checkpoint:
          step: 1200
          time: "2026-01-01T00:10:00.000000Z"
        checkpoints:
          - step: 1200
            time: "2026-01-01T00:10:00.000000Z"
        unsaved: 0
    restarts:
      description: >-
        How often it was started again after its first start. Each attempt of a dispatcher counts, whatever ended the
        one before, which may be a change of size, a suspension, an eviction, a requeue, or a start that was undone
        before all pods ran. Containers and pods that are started again within an attempt do not count;
        RV(jobs[].pods) tells restarts of containers.
      type: int
      sample: 1
    lost_seconds:
      description: >-
        Seconds of work that its last change of size threw away, as far as its trainer had told how far it was; 0 too
        where it had told nothing. Null while there was none.
      type: float
      sample: 0.0
    sizes_next:
      description: >-
        The allowed sizes beside the one that it has, C(smaller) and C(larger), each null where there is none. Null
        while it has no pods.
      type: dict
      sample:
        smaller: 2
        larger: 4
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
        of which moment the amounts are where a dispatcher published them. Otherwise none.
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
      description: The objects of a started job.
      type: list
      elements: dict
      sample:
        - apiVersion: batch/v1
          kind: Job
          namespace: default
          name: train
    pods:
      description: Its pods that carry its label, with podset, phase, node, restarts, and why one does not run.
      type: list
      elements: dict
      sample:
        - name: train-0-x7k2p
          podset: train
          phase: Running
          node: node-1
          restarts: 0
          waiting: null
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

from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic.elastic_job_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
