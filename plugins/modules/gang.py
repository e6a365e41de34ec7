#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gang
short_description: Queue objects that start together or not at all
version_added: 0.1.0
description:
  - Queues a gang, a named list of Kubernetes objects that are created together when all their pods fit, and not before.
    A dispatcher (M(muster.kube.dispatch), or this task with O(dispatch=true)) starts queued gangs in order.
  - Nothing needs to be installed in the cluster. The gang is kept in a record, a ConfigMap of its name, until it is
    removed. Where the role P(muster.kube.dispatcher#role) has installed the AppWrapper kind, AppWrappers of version
    v1beta1 (as MCAD used them) are kept as they are.
  - Many gangs may be queued with one task.
  - The record says who queued the gang, in the annotation C(muster.kube/user), as the API server knows the caller. A
    record that says so already keeps it. Limits of users in quota trees and the hours of each user are counted by it.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes
  - muster.kube._attributes.action_group
  - muster.kube._lease
  - muster.kube._in_process
author:
  - The muster.kube authors (@muster-kube)
attributes:
  check_mode:
    support: full
    details:
      - Returns what would be done, the verdict on the gang, its place in the queue, and the objects that would be
        created as the server's dry run returns them. Nothing is written.
      - The dry runs use the rights of the account that runs the task. A dispatcher over all namespaces uses those of
        the ServiceAccount C(muster).
  diff_mode:
    support: full
    details:
      - The difference shows the specification kept in the record.
  idempotent:
    support: partial
    details:
      - A repeated run reads each record and writes nothing.
      - With O(rerun=true) a finished gang is run again each time. With O(dispatch=true) the Lease is written as long as
        a gang has not started.
options:
  state:
    description:
      - With V(present) the gang is queued as described. A gang that waits is changed in place and keeps its place in
        the queue unless it asks for more than before. While it is being started the task waits. A started gang is left
        alone, and a changed definition is refused unless O(replace=true). A finished one is left as it is unless
        O(rerun=true).
      - With V(suspended) the gang is queued but not started. A dispatcher undoes it if it was. V(present) lets it
        go on.
      - With V(absent) the record is deleted, and with it everything that the gang has made, kept objects such as
        PersistentVolumeClaims included.
    type: str
    default: present
    choices:
      - present
      - absent
      - suspended
  definition: &definition
    description:
      - The objects of the gang, as a mapping, a list of mappings, or YAML text with one or more documents.
      - One AppWrapper stands for the objects it wraps, the C(GenericItems) of version v1beta1 or the C(components) of
        version v1beta2, which codeflare-sdk writes. The latter is not created itself. Its Kueue queue is the default of
        O(queue), its C(suspend) and its annotations about retries are ignored.
      - Refused are cluster-scoped kinds, objects of other namespaces, kinds that grant rights or change admission,
        objects with owners, other gangs, and Secrets unless the record is an AppWrapper.
    type: raw
    aliases:
      - inline
      - objects
  src: &src
    description:
      - A file with the objects of the gang, as YAML with one or more documents.
      - It is looked for as M(kubernetes.core.k8s) does it, in the role, beside the playbook and in C(files) there.
    type: path
  name: &name
    description:
      - Name of the gang and of its record. Defaults to the name of its first object.
      - Given without objects, it names a gang that exists, to remove, suspend or resume it.
    type: str
  namespace: &namespace
    description:
      - Namespace of the gang and all its objects.
      - Defaults to the namespace written in the objects, else V(default).
    type: str
  queue: &queue
    description:
      - Name of the queue the gang belongs to. It is kept and shown.
    type: str
  priority: &priority
    description:
      - Gangs of higher priority are asked first. The default is 0.
    type: int
  priority_slope: &priority_slope
    description:
      - How much the priority grows with each second of waiting. The default is 0.
    type: float
  podsets: &podsets
    description:
      - The demand of the gang, declared instead of inferred from its objects. Needed for kinds this collection does not
        know.
    type: list
    elements: dict
    suboptions:
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
  min_available: &min_available
    description:
      - How many pods must run for the gang to go on, as a number for the whole gang, or as a mapping from podsets to
        numbers. When fewer run, O(requeue) decides.
      - The default is all. Pods that a live object replaces by itself, as a Job does between two tries, are then not
        missed; a Pod or an object with pods that was taken away is. An object that ends by itself and went before
        anybody saw how it ended fails the gang, whatever the minimum.
    type: raw
  requeue: &requeue
    description:
      - When a started gang with too few pods goes back to the queue.
    type: dict
    suboptions:
      time:
        description: How long it may have too few pods, in seconds or like V(1h30m). The default is 300.
        type: str
      growth:
        description: How O(requeue.time) grows with each requeue. The default is V(exponential).
        type: str
        choices:
          - exponential
          - linear
          - none
      max_time:
        description: The longest O(requeue.time) grows to.
        type: str
      limit:
        description: How often the gang may be requeued before it has failed. With V(0) never. Unlimited when not given.
        type: int
      pause:
        description: How long a requeued gang is not asked again. The default is 0.
        type: str
  max_run_time: &max_run_time
    description:
      - After so long, in seconds or like V(1h30m), the gang is stopped and has failed. Also what reservations for other
        gangs reckon with.
    type: str
  completion: &completion
    description:
      - When the gang is complete. Each entry is about one object, given by its place, and one entry of an object is
        enough; every object that has entries must be done.
      - When not given, the kinds of the objects decide, for example the conditions of a Job. With an empty list the
        gang never completes.
    type: list
    elements: dict
    suboptions:
      item:
        description: Place of the object in the definition, counted from 0.
        type: int
      type:
        description: Type of a condition of the object.
        type: str
      contains:
        description: Part of the type of a condition of the object that must be true.
        type: str
      status:
        description: Status the condition must have. The default is V(True).
        type: str
        choices:
          - "True"
          - "False"
          - Unknown
      jmespath:
        description: An expression over the object that is true when it is done.
        type: str
      pods:
        description: With V(true), and without the others, the gang is complete when all its pods have succeeded.
        type: bool
  exit_codes: &exit_codes
    description:
      - Exit codes of failed containers that decide whether the gang is tried again.
    type: dict
    suboptions:
      terminal:
        description: After these the gang has failed.
        type: list
        elements: int
      retryable:
        description: Only after these it is tried again.
        type: list
        elements: int
  ttl: &ttl
    description:
      - So long after its end, in seconds or like V(1h30m), a dispatcher removes the gang. When not given,
        O(muster.kube.dispatch#module:keep_finished) and O(muster.kube.dispatch#module:keep_finished_for) decide.
    type: str
  labels: &labels
    description:
      - Labels of the record, for filters.
    type: dict
  elastic: &elastic
    description:
      - Lets the gang start with as many GPUs as it can use. It starts when its least size fits, with the largest one
        that leaves enough for all others that can start now. What several gangs could have is shared between them step
        by step. Its objects get the size when they are created.
      - While it runs, a dispatcher may give it another size, as O(elastic.timing) says. It grows when there is room,
        nobody waits for it, and the time that it saves is worth the restart. It shrinks for a gang that waits for
        nodes and whose priority is not lower. Its objects are removed then, and it starts again with the other size
        before all others, whose room nobody else may take meanwhile.
      - Needs a ConfigMap as the record, and objects of kinds that this collection knows.
    type: dict
    suboptions:
      range:
        description:
          - The sizes it may have. When not given, the objects say it by the annotations C(muster.kube/min),
            C(muster.kube/max) and C(muster.kube/step), by requests below limits of GPUs, by the elastic policy of a
            PyTorchJob or by the bounds of a worker group.
        type: dict
        suboptions:
          min:
            description: The least size.
            type: int
          max:
            description: The largest size.
            type: int
          step:
            description: The distance of the sizes between them. The default is 1.
            type: int
          sizes:
            description: All sizes, instead of O(elastic.range.step).
            type: list
            elements: int
          resource:
            description: The GPUs that are meant, for example V(nvidia.com/gpu), where pods ask for several.
            type: str
          podset:
            description: The podset that has the size, where there are several.
            type: str
          axis:
            description: Whether a size is the number of GPUs of each pod or the number of pods.
            type: str
            choices:
              - per_pod
              - pods
          global_batch:
            description:
              - Keeps the samples of one step of training the same at all sizes. Sizes that do not divide it are left
                out.
            type: dict
            suboptions:
              value:
                description: The samples of one step, of all GPUs together.
                type: int
                required: true
              per_device_env:
                description: The environment variable that tells the trainer how many samples a GPU takes at once.
                type: str
                required: true
              accumulation_env:
                description: The variable that tells it how often gradients are accumulated.
                type: str
      size:
        description: The one size of the range that it is to have.
        type: int
      timing:
        description:
          - When its size may be changed while it runs. With V(now) at any moment. With V(on_sigterm) too, and its pods
            have saved their work when they end after a SIGTERM. With V(at_checkpoint), the default, only when its
            trainer has saved. The change is planned first and the trainer is asked to save, in the answer to its next
            report (see M(muster.kube.checkpoint)). Nothing is held for it meanwhile, and it is dropped when its reason
            is gone.
        type: str
        choices:
          - now
          - on_sigterm
          - at_checkpoint
      checkpoint_timeout:
        description: >-
          How long a planned change of size waits for a checkpoint, in seconds or like V(1h30m). The default is twice
          the usual time between two checkpoints, at most an hour, and an hour where that is not known.
        type: str
      on_timeout:
        description:
          - What becomes of a planned change of size for which no checkpoint came. With V(give_up), the default, another
            gang is taken instead, and this one is left alone until it has saved. With V(now) it is carried out all the
            same.
        type: str
        choices:
          - give_up
          - now
      cooldown:
        description: >-
          So long after a change of size, in seconds or like V(1h30m), it keeps the new one. The default is 60.
        type: str
      restart_cost:
        description: >-
          How long it takes to save, stop, start and load, in seconds or like V(1h30m). It grows only where that saves
          three times as much. The default is 60.
        type: str
      deadline:
        description: >-
          When its work should be done, as a time such as V(2026-01-31T18:00:00Z). The policy C(deadline) of
          M(muster.kube.elastic_balance) looks at it, others do not. It ends nothing.
        type: str
      profile:
        description:
          - >-
            How fast it is known to be at some sizes: sizes with numbers in proportion to the steps per second, such as
            V({1: 1.0, 2: 1.8, 4: 2.6}). Two sizes are the least. Sizes between them are in proportion to the distance,
            and beyond the last one nothing is gained.
          - What the trainer reports counts more. A size that was measured has that speed, and where two were measured,
            others follow from these. Without a profile, speeds are in proportion to the size until then.
        type: dict
  gangs:
    description:
      - Several gangs, each with options of its own. Takes the place of O(definition), O(src), O(podsets) and O(name);
        other options beside the list hold for those of its entries that say nothing else.
    type: list
    elements: dict
    suboptions:
      name: *name
      namespace: *namespace
      definition: *definition
      src: *src
      podsets: *podsets
      queue: *queue
      priority: *priority
      priority_slope: *priority_slope
      min_available: *min_available
      requeue: *requeue
      max_run_time: *max_run_time
      completion: *completion
      exit_codes: *exit_codes
      ttl: *ttl
      labels: *labels
      elastic: *elastic
  store:
    description:
      - What the record is. V(auto) takes an AppWrapper where the definition is one and the AppWrapper kind was
        installed by this collection, else a ConfigMap; RV(gangs[].store_reason) says why.
    type: str
    default: auto
    choices:
      - auto
      - configmap
      - appwrapper
  replace:
    description:
      - Whether a started gang whose definition changed is removed, with all it has made, and queued anew.
    type: bool
    default: false
  rerun:
    description:
      - Whether a finished gang is removed, with all it has made, and queued anew.
    type: bool
    default: false
  wait:
    description:
      - Whether to wait, when removing, until all objects and pods are gone, and else for O(wait_for).
      - With V(false) and O(dispatch=true) one cycle is run.
    type: bool
    default: true
  wait_for:
    description:
      - Where every gang must be before the task ends; the task fails when one fails or O(wait_timeout) passes. A gang
        that went further has been there.
      - When not given, the task ends when the gangs are queued, or with O(dispatch=true) when they are running or
        O(wait_timeout) has passed, whichever comes first. RV(attended) then says whether they are looked after.
    type: str
    choices:
      - queued
      - dispatched
      - running
      - complete
  wait_timeout:
    description:
      - How long to wait for all gangs together, in seconds or like V(1h30m).
    type: str
    default: "120"
  wait_sleep:
    description:
      - How long to wait between two looks at the cluster, in seconds.
    type: str
    default: "1"
  dispatch:
    description:
      - Whether this task starts the gangs itself, with the rights of the account that runs it. It does so in turn with
        all other dispatchers, respects the order of the queue, and touches no other gang.
      - It looks after them until they run or the task ends. A gang whose pods are not all bound by then stays as it is
        until a dispatcher runs, even if some of its pods never find a node.
    type: bool
    default: false
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
notes:
  - A record may hold 1 MiB with 32 KiB of that for its state. Put large files into ConfigMaps or volumes that exist
    already. A gang with too many podsets or objects to be started is refused when it is queued; a thousand Jobs are
    not too many.
seealso:
  - module: muster.kube.dispatch
  - module: muster.kube.gang_info
  - module: muster.kube.fit_info
"""

EXAMPLES = r"""
- name: Would it fit now, and what would be created?
  muster.kube.gang:
    namespace: default
    src: /srv/training/job.yml
  check_mode: true
  register: preview

- name: Queue a job of two pods and start it as soon as both fit
  muster.kube.gang:
    namespace: default
    name: train
    priority: 10
    max_run_time: 2h
    dispatch: true
    wait_for: running
    wait_timeout: 30m
    definition:
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
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

- name: Queue two gangs for whoever dispatches
  muster.kube.gang:
    namespace: default
    queue: research
    gangs:
      - src: /srv/training/first.yml
      - src: /srv/training/second.yml
        priority: 5

- name: Start with two to eight GPUs, whatever is free
  muster.kube.gang:
    namespace: default
    src: /srv/training/tune.yml
    elastic:
      range:
        min: 2
        max: 8

- name: Stop it for a while
  muster.kube.gang:
    namespace: default
    name: train
    state: suspended

- name: Remove it with everything it has made
  muster.kube.gang:
    namespace: default
    name: train
    state: absent
"""

RETURN = r"""
gangs:
  description: The gangs, in the order given.
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
      description: Uid of its record. None when there is none.
      type: str
      sample: 4f1f3c32-7a0a-4f5e-9f0e-6a1f6f2f9a11
    action:
      description: What was done to the record, V(created), V(changed), V(recreated), V(unchanged) or V(deleted).
      type: str
      sample: created
    changed:
      description: Whether the record was written or the gang was started by this task.
      type: bool
      sample: true
    store:
      description: Whether the record is a V(configmap) or an V(appwrapper).
      type: str
      sample: configmap
    store_reason:
      description: Why it is not what the definition suggests.
      type: str
      sample: null
    phase:
      description: >-
        Phase of the gang, V(queued), V(dispatching), V(dispatched), V(running), V(undoing), V(evicting), V(resizing),
        V(rescaling), V(suspended), V(complete), V(failed) or V(unknown).
      type: str
      sample: queued
    attempt:
      description: Number of the present or next attempt.
      type: int
      sample: 1
    allotment:
      description: The size that an elastic gang has; while it is V(rescaling), the larger of both.
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
    position:
      description: >-
        Place in its own queue of the quota tree, or of all gangs without one, counted from 1. Known in check mode, and
        when a gang still waits after O(dispatch) or O(wait_for); M(muster.kube.gang_info) tells it at any time.
      type: int
      sample: 3
    position_scope:
      description: Whether places are counted in the whole V(cluster), or in the V(namespace) for lack of rights.
      returned: with a position
      type: str
      sample: cluster
    verdict:
      description: The last verdict on the gang, in check mode that of now, as RV(muster.kube.fit_info#module:verdicts).
      type: dict
    verdict_text:
      description: The verdict in words.
      type: str
      sample: "train: fits now"
    objects:
      description: The objects of a started gang.
      type: list
      elements: dict
      sample:
        - apiVersion: batch/v1
          kind: Job
          namespace: default
          name: train
    would_create:
      description: >-
        The objects that would be created, each with C(object) as the server's dry run returned it, or C(error) with the
        reason why the server would refuse it.
      returned: in check mode, for gangs that would wait
      type: list
      elements: dict
      sample:
        - apiVersion: batch/v1
          kind: Job
          namespace: default
          name: train
          object: {}
          error: null
    not_checked:
      description: >-
        What a dry run cannot tell, and from when on the use of quota is unknown where this account cannot see it.
      returned: in check mode, for gangs that would wait
      type: list
      elements: str
      sample: []
    message:
      description: What else should be known, for example why a changed definition was not applied.
      type: str
      sample: null
coordination:
  description:
    - V(cluster) when the Lease of the cluster decided, V(namespace) when this account could only use one of the
      namespace, which promises no safety against dispatchers elsewhere.
  returned: when this task started gangs itself
  type: str
  sample: cluster
holder:
  description: Who holds the Lease when this task did not get it.
  returned: when this task started gangs itself
  type: str
  sample: null
unseen:
  description:
    - What this account may not read. Room promised to gangs there is known from the Lease alone.
  returned: when this task started gangs itself
  type: list
  elements: str
  sample: []
attended:
  description:
    - Whether each gang has come to a point where it needs no dispatcher for now, or another dispatcher holds the Lease.
      When V(false) a warning names the gangs that nobody looks after.
  returned: when this task started gangs itself
  type: bool
  sample: true
ran:
  description: Whether the work was done inside the Ansible process (V(in_process)) or by the module (V(module)).
  returned: always
  type: str
  sample: in_process
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: change
    object: gang default/train
    cause: "it is running and its definition changed; use replace: true to stop it and start the new one"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.gang import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
