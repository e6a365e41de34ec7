#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: elastic_job
short_description: Queue training jobs that may have 2 GPUs or 8, whatever is free
version_added: 0.1.0
description:
  - Queues a job that names a range of sizes instead of one. It starts with the best size that is free, grows when GPUs
    fall free and nobody waits for them, and becomes smaller for a newcomer that waits, never below its least size.
  - An elastic job is a gang (M(muster.kube.gang)) that has a range. Its record, its queue, its quota, its place, the
    way it starts whole or not at all, and its Events are those of gangs, and M(muster.kube.dispatch) starts and resizes
    it. All options of M(muster.kube.gang) that have a meaning for it mean the same here.
  - A size is the number of GPUs of each pod or the number of pods, see O(range.axis).
  - Its size is changed by the gentlest method that its kind and the server allow, see RV(jobs[].method). Where its
    objects are removed and created again, the room is kept for the job meanwhile, and it keeps its place. What must
    survive a change lies on a volume, for example of a PersistentVolumeClaim.
  - A gang and an elastic job cannot share a name. A gang of fixed size that has the name of the job is refused, in any
    state of it, unless O(replace=true) is to put the job in its place. M(muster.kube.gang) sees an elastic job as a
    gang with O(muster.kube.gang#module:elastic). It may suspend, resume and remove it, and a definition without that
    option makes it one of fixed size, which is refused while it runs unless O(muster.kube.gang#module:replace=true).
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
      - Returns what M(muster.kube.gang) returns in check mode, and what a dispatcher with default options would decide
        in its next cycle, by the same plan. That is the size with which the job starts
        (RV(jobs[].allotment)), now or as soon as others have become smaller for it, and which running jobs those are
        (RV(jobs[].would_shrink)). Nothing is written.
      - Where the namespace has no ServiceAccount C(muster), or this account may not read all namespaces, it is what a
        dispatcher of the task's namespaces would decide, which RV(jobs[].not_checked) says.
      - With O(dispatch=true) it is what this task alone would do. It touches no other job, so none becomes smaller.
      - The dry runs use the rights of the account that runs the task. A dispatcher over all namespaces uses those of
        the ServiceAccount C(muster).
  diff_mode:
    support: full
    details:
      - The difference shows the specification kept in the record.
  idempotent:
    support: partial
    details:
      - A repeated run reads each record and writes nothing, whatever size the job has by then.
      - With O(rerun=true) a finished job is run again each time. With O(dispatch=true) the Lease is written as long as
        a job has not started.
options:
  state:
    description:
      - With V(present) the job is queued as described. A job that waits is changed in place and keeps its place in
        the queue unless its least size asks for more than before. While it is being started the task waits. A started
        job is left alone, and a changed definition, range included, is refused unless O(replace=true). A finished one
        is left as it is unless O(rerun=true).
      - With V(suspended) the job is queued but not started. A dispatcher undoes it if it was. V(present) lets it
        go on.
      - With V(absent) the record is deleted, and with it everything that the job has made, kept objects such as
        PersistentVolumeClaims included.
    type: str
    default: present
    choices:
      - present
      - absent
      - suspended
  definition: &definition
    description:
      - The objects of the job, as a mapping, a list of mappings, or YAML text with one or more documents.
      - One AppWrapper stands for the objects it wraps, as in M(muster.kube.gang).
      - The GPUs that they ask for, or their number of pods, are replaced by the size when they are created. The record
        keeps them as they are written. A container that has the variable C(NGPU) is told the GPUs of its pod in it.
      - Refused are cluster-scoped kinds, objects of other namespaces, kinds that grant rights or change admission,
        objects with owners, other gangs, and Secrets.
    type: raw
    aliases:
      - inline
      - objects
  src: &src
    description:
      - A file with the objects of the job, as YAML with one or more documents.
      - It is looked for as M(kubernetes.core.k8s) does it, in the role, beside the playbook and in C(files) there.
    type: path
  name: &name
    description:
      - Name of the job and of its record. Defaults to the name of its first object.
      - Given without objects, it names a job that exists, to remove, suspend or resume it.
    type: str
  namespace: &namespace
    description:
      - Namespace of the job and all its objects.
      - Defaults to the namespace written in the objects, else V(default).
    type: str
  queue: &queue
    description:
      - Name of the queue the job belongs to.
    type: str
  priority: &priority
    description:
      - Gangs of higher priority are asked first. The default is 0.
    type: int
  priority_slope: &priority_slope
    description:
      - How much the priority grows with each second of waiting. The default is 0.
    type: float
  min_available: &min_available
    description:
      - How many pods must run for the job to go on, as a number for the whole job, or as a mapping from podsets to
        numbers. When fewer run, O(requeue) decides.
      - The default is all. Pods that a live object replaces by itself, as a Job does between two tries, are then not
        missed; a Pod or an object with pods that was taken away is. An object that ends by itself and went before
        anybody saw how it ended fails the job, whatever the minimum.
    type: raw
  requeue: &requeue
    description:
      - When a started job with too few pods goes back to the queue.
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
        description: How often the job may be requeued before it has failed. With V(0) never. Unlimited when not given.
        type: int
      pause:
        description: How long a requeued job is not asked again. The default is 0.
        type: str
  max_run_time: &max_run_time
    description:
      - After so long, in seconds or like V(1h30m), the job is stopped and has failed. Also what reservations for other
        gangs reckon with.
    type: str
  completion: &completion
    description:
      - When the job is complete. Each entry is about one object, given by its place, and one entry of an object is
        enough; every object that has entries must be done.
      - When not given, the kinds of the objects decide, for example the conditions of a Job. With an empty list the
        job never completes.
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
        description: With V(true), and without the others, the job is complete when all its pods have succeeded.
        type: bool
  exit_codes: &exit_codes
    description:
      - Exit codes of failed containers that decide whether the job is tried again.
    type: dict
    suboptions:
      terminal:
        description: After these the job has failed.
        type: list
        elements: int
      retryable:
        description: Only after these it is tried again.
        type: list
        elements: int
  ttl: &ttl
    description:
      - So long after its end, in seconds or like V(1h30m), a dispatcher removes the job. When not given,
        O(muster.kube.dispatch#module:keep_finished) and O(muster.kube.dispatch#module:keep_finished_for) decide.
    type: str
  labels: &labels
    description:
      - Labels of the record, for filters.
    type: dict
  range: &range
    description:
      - The sizes the job may have. Give O(range.min) and O(range.max), or O(range.sizes).
      - When not given, or given without sizes, the objects say them, by the annotations C(muster.kube/min),
        C(muster.kube/max), C(muster.kube/step) and C(muster.kube/sizes), by requests of GPUs that are below their
        limits, by the bare annotations C(request) and C(limit), by the elastic policy of a PyTorchJob, by the bounds of
        a worker group, or by C(kueue.x-k8s.io/job-min-parallelism).
      - Where both say it, this one may be narrower. Two ranges that disagree are refused, and so are a range without
        any allowed size, objects without pods or GPUs, and pods that ask for different kinds of GPUs.
      - Of objects that Kueue manages (label C(kueue.x-k8s.io/queue-name)) only the number of pods of Jobs, RayClusters,
        RayJobs and RayServices may change.
    type: dict
    suboptions:
      min:
        description: The least size. The job starts when it fits.
        type: int
      max:
        description: The largest size.
        type: int
      step:
        description: The distance of the sizes between them. The default is 1.
        type: int
      sizes:
        description: All sizes, instead of O(range.step).
        type: list
        elements: int
      resource:
        description: The GPUs that are meant, for example V(nvidia.com/gpu), where pods ask for something else too.
        type: str
      podset:
        description: The podset that has the size, where there are several, for example V(worker).
        type: str
      axis:
        description: >-
          Whether a size is the number of GPUs of each pod or the number of pods. The default depends on the kind. It is
          V(pods) for Ray and LeaderWorkerSets, and V(per_pod) for others.
        type: str
        choices:
          - per_pod
          - pods
  size: &size
    description:
      - The one size of the range that the job is to have, or V(auto), the default, for whatever is best.
    type: str
  timing: &timing
    description:
      - When its size may be changed while it runs. With V(now) at any moment. With V(on_sigterm) too, and its pods
        have saved their work when they end after a SIGTERM. With V(at_checkpoint), the default, only after a
        checkpoint, for which its trainer is asked; see M(muster.kube.checkpoint).
    type: str
    choices:
      - now
      - on_sigterm
      - at_checkpoint
  checkpoint_timeout: &checkpoint_timeout
    description:
      - How long a planned change of size waits for a checkpoint with O(timing=at_checkpoint), in seconds or like
        V(1h30m). The default is twice the usual time between two checkpoints, at most an hour, and an hour where that
        is not known.
    type: str
  on_timeout: &on_timeout
    description:
      - What becomes of a planned change of size for which no checkpoint came. With V(give_up), the default, another job
        is taken instead, and this one is left alone until it has saved. With V(now) it is carried out all the same.
    type: str
    choices:
      - give_up
      - now
  cooldown: &cooldown
    description:
      - So long after a change of size, in seconds or like V(1h30m), the job keeps the new one. The default is 60.
    type: str
  restart_cost: &restart_cost
    description:
      - How long it takes to save, stop, start and load, in seconds or like V(1h30m). The job grows only where that
        saves three times as much. The default is 60.
    type: str
  deadline: &deadline
    description: >-
      When its work should be done, as a time such as V(2026-01-31T18:00:00Z). The policy C(deadline) of
      M(muster.kube.elastic_balance) looks at it, others do not. It ends nothing.
    type: str
  profile: &profile
    description:
      - >-
        How fast the job is known to be at some sizes: sizes with numbers in proportion to the steps per second, such as
        V({1: 1.0, 2: 1.8, 4: 2.6}). Two sizes are the least. Sizes between them are in proportion to the distance, and
        beyond the last one nothing is gained.
      - What the trainer reports counts more. A size that was measured has that speed, and where two were measured,
        others follow from these. Without a profile, speeds are in proportion to the size until then.
    type: dict
  global_batch: &global_batch
    description:
      - Keeps the samples of one step of training the same at all sizes. Sizes that do not divide it are left out, or
        refused where they were listed in O(range.sizes).
    type: dict
    suboptions:
      value:
        description: The samples of one step, of all GPUs together.
        type: int
        required: true
      per_device_env:
        description: >-
          The environment variable that tells the trainer how many samples a GPU takes at once. Its value in the
          definition is the most that a GPU can take.
        type: str
        required: true
      accumulation_env:
        description: The variable that tells it how often gradients are accumulated.
        type: str
  jobs:
    description:
      - Several jobs, each with options of its own. Takes the place of O(definition), O(src) and O(name); other options
        beside the list hold for those of its entries that say nothing else.
    type: list
    elements: dict
    suboptions:
      name: *name
      namespace: *namespace
      definition: *definition
      src: *src
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
      range: *range
      size: *size
      timing: *timing
      checkpoint_timeout: *checkpoint_timeout
      on_timeout: *on_timeout
      cooldown: *cooldown
      restart_cost: *restart_cost
      deadline: *deadline
      profile: *profile
      global_batch: *global_batch
  replace:
    description:
      - Whether a started job whose definition changed is removed, with all it has made, and queued anew.
      - Also whether a gang of fixed size that has the name of the job gives way to it.
    type: bool
    default: false
  rerun:
    description:
      - Whether a finished job is removed, with all it has made, and queued anew.
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
      - Where every job must be before the task ends; the task fails when one fails or O(wait_timeout) passes. A job
        that went further has been there.
      - When not given, the task ends when the jobs are queued, or with O(dispatch=true) when they are running or
        O(wait_timeout) has passed, whichever comes first. RV(attended) then says whether they are looked after.
    type: str
    choices:
      - queued
      - dispatched
      - running
      - complete
  wait_timeout:
    description:
      - How long to wait for all jobs together, in seconds or like V(1h30m).
    type: str
    default: "120"
  wait_sleep:
    description:
      - How long to wait between two looks at the cluster, in seconds.
    type: str
    default: "1"
  dispatch:
    description:
      - Whether this task starts the jobs itself, with the rights of the account that runs it. It does so in turn with
        all other dispatchers, respects the order of the queue, and touches no other gang. Nor does it resize any.
      - It looks after them until they run or the task ends. A job whose pods are not all bound by then stays as it is
        until a dispatcher runs, even if some of its pods never find a node.
    type: bool
    default: false
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
notes:
  - >-
    When a job is written, the task warns once of each of these. Its C(restartPolicy) is C(Never). Its command is
    C(sh -c) or the like without C(exec), so that SIGTERM does not arrive at the trainer. With O(timing=on_sigterm)
    C(terminationGracePeriodSeconds) is not set or below 30. No container mounts a volume that outlives the pod. With
    GPUs per pod, the number of processes is a fixed one (C(--nproc_per_node=4), C(--num_processes 4),
    C(spec.nprocPerNode)).
  - The record is always a ConfigMap. It may hold 1 MiB with 32 KiB of that for its state.
seealso:
  - module: muster.kube.elastic_job_info
  - module: muster.kube.gang
  - module: muster.kube.dispatch
"""

EXAMPLES = r"""
- name: Train with two to four GPUs, as the requests and limits of the PyTorchJob say
  muster.kube.elastic_job:
    namespace: default
    timing: on_sigterm
    definition:
      apiVersion: kubeflow.org/v1
      kind: PyTorchJob
      metadata:
        name: tune
      spec:
        pytorchReplicaSpecs:
          Master:
            replicas: 1
            restartPolicy: OnFailure
            template:
              spec:
                terminationGracePeriodSeconds: 120
                containers:
                  - name: pytorch
                    image: registry.example.com/tune:1
                    command:
                      - torchrun
                      - --nproc_per_node=$(NGPU)
                      - train.py
                    env:
                      - name: NGPU
                        value: "2"
                    resources:
                      requests:
                        nvidia.com/gpu: "2"
                      limits:
                        nvidia.com/gpu: "4"
                    volumeMounts:
                      - name: checkpoints
                        mountPath: /checkpoints
                volumes:
                  - name: checkpoints
                    persistentVolumeClaim:
                      claimName: tune

- name: Train with one to four pods, resized only when the trainer has saved
  muster.kube.elastic_job:
    namespace: default
    queue: research
    range:
      min: 1
      max: 4
      axis: pods
    timing: at_checkpoint
    checkpoint_timeout: 30m
    definition:
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
      spec:
        completionMode: Indexed
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: OnFailure
            containers:
              - name: main
                image: registry.example.com/train:1
                resources:
                  limits:
                    nvidia.com/gpu: "1"
                volumeMounts:
                  - name: checkpoints
                    mountPath: /checkpoints
            volumes:
              - name: checkpoints
                persistentVolumeClaim:
                  claimName: train

- name: Keep 64 samples in each step, whatever the size, with at most 8 on a GPU at once
  muster.kube.elastic_job:
    namespace: default
    range:
      sizes:
        - 2
        - 4
        - 8
    timing: now
    global_batch:
      value: 64
      per_device_env: BATCH
      accumulation_env: ACCUMULATION
    definition:
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: finetune
      spec:
        template:
          spec:
            restartPolicy: OnFailure
            containers:
              - name: main
                image: registry.example.com/finetune:1
                env:
                  - name: BATCH
                    value: "8"
                resources:
                  limits:
                    nvidia.com/gpu: "2"
                volumeMounts:
                  - name: checkpoints
                    mountPath: /checkpoints
            volumes:
              - name: checkpoints
                persistentVolumeClaim:
                  claimName: finetune

- name: Which size would it get, and who would become smaller for it?
  muster.kube.elastic_job:
    namespace: default
    src: /srv/training/tune.yml
    range:
      min: 2
      max: 8
  check_mode: true
  register: preview

- name: Stop it for a while
  muster.kube.elastic_job:
    namespace: default
    name: tune
    state: suspended
"""

RETURN = r"""
jobs:
  description: The jobs, in the order given.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
      sample: train
    namespace:
      description: Namespace of the job.
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
      description: Whether the record was written or the job was started by this task.
      type: bool
      sample: true
    store:
      description: What the record is, always V(configmap).
      type: str
      sample: configmap
    store_reason:
      description: Why it is not what the definition suggests.
      type: str
      sample: null
    phase:
      description: >-
        Its phase, V(queued), V(dispatching), V(dispatched), V(running), V(undoing), V(evicting), V(resizing),
        V(suspended), V(complete), V(failed) or V(unknown).
      type: str
      sample: queued
    attempt:
      description: Number of the present or next attempt.
      type: int
      sample: 1
    range:
      description: >-
        The sizes it may have (C(sizes)), the GPUs that are meant (C(resource)), the podset that has the size
        (C(podset)), and what a size counts (C(axis)). Null when there is no such job.
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
        The size that the present attempt was started with. In check mode, of a job that would wait, the one that it
        starts with in the next cycle or as soon as those in RV(jobs[].would_shrink) have become smaller; null when it
        waits for more.
      type: int
      sample: 3
    method:
      description: >-
        How its size is changed, as its kind and the server allow it. With V(scale) its object gets another number of
        pods; with V(suspend) its object is suspended, and goes on with other pods; with V(recreate) its objects are
        removed and created again. Dispatchers fall back to V(recreate) where anything speaks against the others.
        Of objects that Kueue manages it is always V(scale); a range that this cannot carry out is refused.
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
    progress:
      description: >-
        How far its training is, as RV(muster.kube.checkpoint#module:progress). Null while it does not run, and until
        somebody told.
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
        unsaved: 0
    restarts:
      description: >-
        How often it was started again after its first start. Each attempt of a dispatcher counts, whatever ended the
        one before, which may be a change of size, a suspension, an eviction, a requeue, or a start that was undone
        before all pods ran. Containers and pods that are started again within an attempt do not count.
      type: int
      sample: 1
    lost_seconds:
      description: >-
        Seconds of work that its last change of size threw away, as far as its trainer had told how far it was; 0 too
        where it had told nothing. Null while there was none.
      type: float
      sample: 0.0
    position:
      description: >-
        Place in the queue, counted from 1. Known in check mode, and when a job still waits after O(dispatch) or
        O(wait_for); M(muster.kube.elastic_job_info) tells it at any time.
      type: int
      sample: 3
    position_scope:
      description: Whether places are counted in the whole V(cluster), or in the V(namespace) for lack of rights.
      returned: with a position
      type: str
      sample: cluster
    verdict:
      description: >-
        The last verdict on it, in check mode that of now, on its least size, as
        RV(muster.kube.fit_info#module:verdicts).
      type: dict
    verdict_text:
      description: The verdict in words.
      type: str
      sample: "train: fits now"
    objects:
      description: The objects of a started job.
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
      returned: in check mode, for jobs that would wait
      type: list
      elements: dict
      sample:
        - apiVersion: batch/v1
          kind: Job
          namespace: default
          name: train
          object: {}
          error: null
    would_shrink:
      description: >-
        The running jobs that would become smaller for it, each with C(name), C(namespace), C(queue), its present size
        (C(from)) and the one after (C(to)). Where this account may not read the records of all namespaces, those of
        other namespaces than the task's have no name and no namespace.
      returned: in check mode, for jobs that would wait
      type: list
      elements: dict
      sample:
        - name: train
          namespace: default
          queue: research
          from: 4
          to: 2
    not_checked:
      description: >-
        What a dry run cannot tell, from when on the use of quota is unknown where this account cannot see it, and why
        the size or the plan of a dispatcher cannot be foreseen.
      returned: in check mode, for jobs that would wait
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
  returned: when this task started jobs itself
  type: str
  sample: cluster
holder:
  description: Who holds the Lease when this task did not get it.
  returned: when this task started jobs itself
  type: str
  sample: null
unseen:
  description:
    - What this account may not read. Room promised to gangs there is known from the Lease alone.
  returned: when this task started jobs itself
  type: list
  elements: str
  sample: []
attended:
  description:
    - Whether each job has come to a point where it needs no dispatcher for now, or another dispatcher holds the Lease.
      When V(false) a warning names the jobs that nobody looks after.
  returned: when this task started jobs itself
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
    object: gang default/tune
    cause: "it is running and its definition changed; use replace: true to stop it and start the new one"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic.elastic_job import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
