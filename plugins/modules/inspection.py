#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inspection
short_description: Run a script on a software stack and chosen hardware, and keep its results
version_added: 0.1.0
description:
  - Answers whether a software stack works, and how fast, on some hardware. The stack is built if it is not a ready
    image, the script is run in it as often as wanted, and each run yields one result with the script's output, times,
    memory, and the hardware it saw.
  - Nothing needs to be installed in the cluster, and the image needs a POSIX shell and coreutils only. Runs are
    the pods of an indexed Job. Results are kept in ConfigMaps.
  - An inspection is identified by the hash of all that shapes its results. A repeated task returns the stored results
    and writes nothing.
  - With O(engine=local) the same is done by podman on this machine, without a cluster.
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
      - Returns the stored results, or else whether the script would be run, the verdict on its pods, and the
        Dockerfile. Hardware that no node has is refused as in a real run. Nothing is written.
      - When the image would first have to be built, its digest is unknown, and so is RV(run_hash).
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - A repeated run returns the stored results and writes nothing.
      - With O(force=true) the script is run again each time. A run that failed for reasons outside of the script, for
        example for lack of room, is tried again.
options:
  state:
    description:
      - With V(present) the results of the inspection are there in the end.
      - With V(absent) the inspections named by O(inspection_id) or O(identifier) are removed with their results,
        running ones are cancelled. Without either only those are removed whose O(ttl) has passed.
      - With V(cancelled) the inspections named by O(inspection_id) or O(identifier) are ended if they are not over.
        Repetitions that ended by themselves keep their results, the others have the reason V(cancelled). A task with
        V(present) runs only these when it is run again.
    type: str
    default: present
    choices:
      - present
      - absent
      - cancelled
  namespace:
    description:
      - Namespace of the inspection and its pods.
    type: str
    default: default
  inspection_id:
    description:
      - The inspection to remove or cancel.
    type: str
    aliases:
      - name
  identifier:
    description:
      - A word of your own that becomes part of the name, to find inspections that belong together. At most 22 lower
        case letters, digits and dashes.
    type: str
  labels:
    description:
      - Labels of the inspection, to find it with M(muster.kube.inspection_info). They do not shape its results.
    type: dict
  image:
    description:
      - The image to run the script in. With a digest (C(name@sha256:...)) stored results are surely those of this
        image. What a tag pointed to is not checked again.
      - Exactly one of O(image), O(stack) and O(specification) is needed, here or in O(matrix).
    type: str
  stack:
    description:
      - The software stack to build first, as described in O(muster.kube.image_build#module:stack).
      - A stack that was built before is not built again.
    type: dict
  specification:
    description:
      - A request as the Amun service took it, unchanged. It stands for O(stack), O(script), O(identifier),
        O(repetitions), O(build) and O(run); options beside it come before what it says.
      - Fields without a meaning here are named in RV(ignored), unknown ones are refused.
      - A script given by URL needs O(checksum).
    type: dict
  script:
    description:
      - The text of the script. Its first line may name any interpreter that is in the image; without one it is run by
        C(sh).
      - Without O(script), O(src) and O(url) the stack is only built.
    type: str
  src:
    description:
      - A file with the script, on the controller when the task runs there, else on the host.
      - It is looked for as M(kubernetes.core.k8s) does it, in the role, beside the playbook and in C(files) there.
    type: path
  url:
    description:
      - Where to fetch the script. Its contents must have the O(checksum).
    type: str
  checksum:
    description:
      - C(sha256:) and the checksum of the script behind O(url).
    type: str
  interpreter:
    description:
      - Runs the script instead of the interpreter its first line names, for example V(python3 -u).
    type: str
  args:
    description:
      - Arguments of the script.
    type: list
    elements: str
  env:
    description:
      - Environment variables of the script. Names that begin with C(MUSTER_) are taken.
      - Values are kept with the results. A value that nobody may see is taken from a Secret instead, by a mapping with
        C(secret), its name, and C(key). It is masked where the script prints it.
    type: dict
  files:
    description:
      - Files the script finds, read-only.
    type: list
    elements: dict
    suboptions:
      path:
        description: Absolute path of the file.
        type: str
        required: true
      content:
        description: The contents as text.
        type: str
      content_base64:
        description: The contents as Base64, for bytes that are no text.
        type: str
      mode:
        description: Permissions as an octal number. The default is V(0444).
        type: str
  volumes:
    description:
      - Volumes the script finds, data sets and passwords for example. Folders of nodes are never given to it.
      - Values of Secrets are masked in the output that is kept, line by line and in base64, if they have six characters
        or more; the image needs C(sed) and C(sort) for that. A script that prints them in another form shows them.
      - Names of volumes belong to what identifies an inspection, their contents do not. Use O(force) if these changed.
    type: list
    elements: dict
    suboptions:
      path:
        description: Absolute path of the folder, or with O(volumes[].key) of the file.
        type: str
        required: true
      persistent_volume_claim:
        description: Name of a PersistentVolumeClaim.
        type: str
      config_map:
        description: Name of a ConfigMap, whose entries are files.
        type: str
      secret:
        description: Name of a Secret, whose entries are files.
        type: str
      empty_dir:
        description: Room of its own for each repetition, which can be written.
        type: dict
        suboptions:
          size:
            description: How much it may hold, such as V(1Gi).
            type: str
            required: true
      key:
        description: The only entry of the O(volumes[].config_map) or O(volumes[].secret) that is wanted.
        type: str
      sub_path:
        description: A folder inside of the O(volumes[].persistent_volume_claim).
        type: str
      read_only:
        description: >-
          Whether it cannot be written. The default is V(true), except for O(volumes[].empty_dir). Only a
          O(volumes[].persistent_volume_claim) leaves the choice.
        type: bool
  workdir:
    description:
      - Directory in which the script runs. The default is that of the image.
    type: str
  repetitions:
    description:
      - How many times the script is run, each time in a pod of its own. The default is 1.
    type: int
  parallelism:
    description:
      - How many of them may run at the same time. The default is 1, so that they do not disturb one another.
    type: int
  warmup:
    description:
      - How many times the script runs in each pod before the run that counts. The default is 0.
    type: int
  allowed_failures:
    description:
      - How many repetitions may fail. The default is 0.
    type: int
  build:
    description:
      - How the image of a O(stack) is built, with the options of M(muster.kube.image_build).
    type: dict
    suboptions:
      repository:
        description:
          - The repository the image is pushed to, without tag. Needed unless podman builds on this machine.
        type: str
      tag:
        description:
          - The tag of the image. The default follows from the stack.
        type: str
      engine:
        description:
          - What builds the image, see O(muster.kube.image_build#module:engine). With O(engine=local) the default is
            V(podman).
        type: str
        default: auto
        choices:
          - auto
          - job
          - podman
          - none
      tier:
        description:
          - The rights of the builder, see O(muster.kube.image_build#module:tier).
        type: str
        default: auto
        choices:
          - auto
          - userns
          - baseline
          - unconfined
          - privileged
      builder_image:
        description:
          - The image with buildah that builds in the cluster.
        type: str
        default: quay.io/buildah/stable:v1.43.0
      requests:
        description:
          - Amounts the builder requests.
        type: dict
      limits:
        description:
          - Limits of the builder.
        type: dict
      hardware:
        description:
          - The hardware of the node that builds, as in O(run.hardware).
        type: dict
      tolerations:
        description:
          - Tolerations of the builder's pod.
        type: list
        elements: dict
      service_account:
        description:
          - ServiceAccount of the builder's pod.
        type: str
      pull_secret:
        description:
          - Name of the Secret for pulling the base image.
        type: str
      push_secret:
        description:
          - Name of the Secret for pushing.
        type: str
      insecure_registries:
        description:
          - Registries that are reached without TLS or with certificates nobody knows.
        type: list
        elements: str
      host_network:
        description:
          - Whether the builder uses the network of its node.
        type: bool
        default: false
      cache:
        description:
          - Repository for the layers of earlier builds.
        type: str
      push:
        description:
          - Whether the image is pushed. Only podman may keep it to itself, which is its default.
        type: bool
      timeout:
        description:
          - How long the build may take.
        type: str
        default: 1h
      start_timeout:
        description:
          - How long to wait for room for the build.
        type: str
        default: 10m
  run:
    description:
      - What the pods of the script ask for.
    type: dict
    suboptions:
      requests:
        description:
          - Amounts by resource name, such as C(cpu) and C(memory). They are the limits as well, so that runs are
            comparable.
          - Without C(cpu) pods request 500m and without C(memory) 256Mi, and have no limit.
        type: dict
      wait_for_nodes:
        description:
          - Do not refuse hardware that no node has, but wait for a node with it until O(start_timeout). This is for
            pools that an autoscaler scales down to zero and up again when pods wait.
          - A C(*) in a product and the memory of AMD GPUs cannot be asked for then, since their values come from nodes.
        type: bool
      hardware:
        description:
          - The hardware the pods must get. Nodes are told apart by the labels of node-feature-discovery and of the GPU
            vendors. When no node has it the task fails before anything is created, and names the nearest nodes.
          - Asked and found hardware are compared after each run, see RV(runs[].placement_verified).
        type: dict
        suboptions:
          arch:
            description: Architecture, such as V(amd64) or V(arm64).
            type: str
          cpu:
            description: The CPU.
            type: dict
            suboptions:
              vendor:
                description: Its vendor, such as V(Intel) or V(AMD).
                type: str
              family:
                description: Its family, as C(lscpu) tells it.
                type: int
              model:
                description: Its model, as C(lscpu) tells it.
                type: int
              flags:
                description: Flags it must have, such as V(avx2).
                type: list
                elements: str
              level:
                description: The level of x86-64 it must have, such as V(x86-64-v3).
                type: str
          gpu:
            description: The GPUs. With O(run.hardware.gpu.count=0) nodes without GPUs are asked for.
            type: dict
            suboptions:
              vendor:
                description: V(nvidia), V(amd) or V(intel).
                type: str
              product:
                description: Product names as in node labels, one of which it must be. V(*) stands for any characters.
                type: list
                elements: str
              count:
                description: How many each pod gets. The default is 1.
                type: int
              memory:
                description: Memory each must have at least, such as V(40Gi).
                type: str
              resource:
                description: The extended resource to ask for. The default follows from the vendor.
                type: str
          node_selector:
            description: Labels a node must carry with exactly these values.
            type: dict
  engine:
    description:
      - V(job) runs the script in the cluster, V(local) with podman on this machine. Results have the same keys.
    type: str
    default: job
    choices:
      - job
      - local
  timeout:
    description:
      - How long each repetition may run, warm-up included, in seconds or like V(1h30m).
    type: str
    default: 1h
  start_timeout:
    description:
      - How long to wait for room, as long as nothing runs. What is waited for is shown.
    type: str
    default: 30m
  output_bytes:
    description:
      - How much of each output stream is kept, half of it from the beginning and half from the end. The default is
        65536, the most is 1048576.
      - All repetitions together keep at most 32 MiB, so of more than 16 repetitions each may keep less. What is left
        out is marked in the text and counted in C(truncated).
    type: int
  service_account:
    description:
      - ServiceAccount of the pods. Its token is not mounted.
    type: str
  pull_secrets:
    description:
      - Names of Secrets for pulling the image.
    type: list
    elements: str
  tolerations:
    description:
      - Tolerations of the pods, as in a pod specification. Taints of nodes with the GPUs asked for are tolerated.
    type: list
    elements: dict
  priority_class:
    description:
      - PriorityClass of the pods.
    type: str
  runtime_class:
    description:
      - RuntimeClass of the pods.
    type: str
  security:
    description:
      - The rights of the script. By default it has no capabilities, cannot gain privileges, makes only the system calls
        of the runtime's own profile, and runs as the user of the image, which may be root.
      - In namespaces with the Pod Security level C(restricted) set O(security.run_as_non_root), or
        O(security.run_as_user) to any user but root.
    type: dict
    suboptions:
      run_as_user:
        description: Number of the user to run as. Any but 0 is known not to be root.
        type: int
      run_as_group:
        description: Number of the group to run as.
        type: int
      run_as_non_root:
        description: Whether an image that would run as root is refused.
        type: bool
      capabilities:
        description: Capabilities the script needs, such as V(NET_RAW), without C(CAP_).
        type: list
        elements: str
      allow_privilege_escalation:
        description: Whether programs such as C(sudo) can gain privileges.
        type: bool
      seccomp_profile:
        description: The system calls that are allowed. V(Unconfined) is all of them.
        type: str
        choices:
          - RuntimeDefault
          - Unconfined
      privileged:
        description: Whether the script may do everything on its node. Includes all other rights.
        type: bool
  matrix:
    description:
      - Several inspections in one task, one for each combination of values. They run one after the other, and the
        result of each is in RV(matrix).
      - The other options of the task hold for all of them.
    type: dict
    suboptions:
      axes:
        description:
          - For each axis a mapping of names of its values, and for each value the options that it stands for, such as
            C(image), C(stack), C(env), C(args), C(repetitions), C(build) and C(run). O(src) cannot be one of them.
          - Options that are mappings are put together with those of the task and of other axes. Else a later axis comes
            before an earlier one, and all axes before the task.
          - The last axis changes first. At most 1000 combinations are taken.
        type: dict
        required: true
      exclude:
        description:
          - Combinations to leave out, each a mapping of axes and names of values. Axes it does not name may have any.
        type: list
        elements: dict
      include:
        description:
          - Mappings of axes and names of values, with C(options) for the combinations that have all of these.
          - When none of the combinations that are left has them, it is one of its own. Then names may be new ones.
        type: list
        elements: dict
      fail_fast:
        description:
          - Whether to leave out what follows an inspection that failed. The left out have the reason V(cancelled) and
            are inspected by the next run of the task.
        type: bool
        default: false
  wait:
    description:
      - Whether to wait for the results. With V(false) the task only starts what has to be done next; run it again for
        the results.
    type: bool
    default: true
  force:
    description:
      - Whether to run the script again although there are results. The image is not built again.
    type: bool
    default: false
  ttl:
    description:
      - So long after its end, in seconds or like V(1h30m), an inspection is removed by the next task that works in the
        namespace. Never when not given.
    type: str
  fail_when_failed:
    description:
      - Whether the task fails when the inspection failed. The results are returned in any case.
    type: bool
    default: true
  collector:
    description:
      - The program that runs the script and reports, the collection's own. Seldom set.
      - Needed where the task does not pass the controller's action plugin.
    type: str
  build_script:
    description:
      - The program that builds in the cluster, the collection's own. Seldom set.
    type: str
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
  - podman, for O(engine=local)
  - packaging (for a stack with a Pipfile, its lock or a pyproject)
notes:
  - A run goes on in the cluster when the task is stopped. The same task, run again, waits for it and returns its
    results. O(state=cancelled) ends it.
  - The script finds what is known of the hardware in the file that the variable E(MUSTER_HWINFO) names and, where the
    image lets it be written, in C(/home/amun/hwinfo/info.json).
seealso:
  - module: muster.kube.inspection_info
  - module: muster.kube.image_build
  - module: muster.kube.fit_info
"""

EXAMPLES = r"""
- name: How long does it take, five times, with one CPU?
  muster.kube.inspection:
    namespace: default
    image: registry.example.com/python:3.12
    identifier: matmul
    repetitions: 5
    warmup: 1
    run:
      requests:
        cpu: "1"
        memory: 1Gi
    script: |
      #!/usr/bin/env python3
      import json, time
      start = time.perf_counter()
      total = sum(number * number for number in range(10 ** 6))
      print(json.dumps({"total": total, "seconds": time.perf_counter() - start}))
  register: answer

- name: Show the median
  ansible.builtin.debug:
    msg: "{{ answer.summary.wall_seconds.median }} s on {{ answer.hwinfo.cpu.brand }}"

- name: Does this stack work on a node with a GPU?
  muster.kube.inspection:
    namespace: default
    stack:
      base: registry.example.com/python:3.12
      python:
        packages:
          - torch==2.4.0
    build:
      repository: registry.example.com/stacks
    run:
      requests:
        cpu: "4"
        memory: 16Gi
      hardware:
        gpu:
          product:
            - NVIDIA-A100-*
    src: /srv/inspections/train.py
    timeout: 2h

- name: Which base is faster, with one thread and with two?
  muster.kube.inspection:
    namespace: default
    script: python3 -m timeit -s 'import numpy' 'numpy.ones((500, 500)) @ numpy.ones((500, 500))'
    repetitions: 5
    stack:
      python:
        packages:
          - numpy==2.3.1
    build:
      repository: registry.example.com/stacks
    matrix:
      axes:
        base:
          debian: {stack: {base: "registry.example.com/python:3.12"}}
          alpine: {stack: {base: "registry.example.com/python:3.12-alpine"}}
        threads:
          one: {env: {OMP_NUM_THREADS: "1"}, run: {requests: {cpu: "1"}}}
          two: {env: {OMP_NUM_THREADS: "2"}, run: {requests: {cpu: "2"}}}
      exclude:
        - base: alpine
          threads: two
      include:
        - base: debian
          options:
            repetitions: 10
  register: compared

- name: With a data set and a password
  muster.kube.inspection:
    namespace: default
    image: registry.example.com/python:3.12
    src: /srv/inspections/train.py
    env:
      TOKEN: {secret: accounts, key: token}
    volumes:
      - path: /data
        persistent_volume_claim: imagenet
      - path: /etc/train/account.json
        secret: accounts
        key: account.json
      - path: /scratch
        empty_dir: {size: 20Gi}

- name: A request of the Amun service
  muster.kube.inspection:
    namespace: default
    specification: "{{ lookup('ansible.builtin.file', 'request.json') | from_json }}"
    build:
      repository: registry.example.com/stacks

- name: End what runs and keep the results there are
  muster.kube.inspection:
    namespace: default
    identifier: matmul
    state: cancelled

- name: Remove all inspections of one identifier
  muster.kube.inspection:
    namespace: default
    identifier: matmul
    state: absent
"""

RETURN = r"""
inspection_id:
  description: Name of the inspection. None as long as its image is not built.
  returned: success
  type: str
  sample: inspection-matmul-0b5c1d2e3f
phase:
  description: >-
    V(Pending), V(Building), V(Running), V(Succeeded), V(Failed) or V(Cancelled). In check mode V(Pending) when there
    are no results.
  returned: success
  type: str
  sample: Succeeded
status:
  description: >-
    Where C(build) and C(run) stand, each with C(phase), C(reason), C(message) and C(waiting_for), which tells what a
    pending one waits for, V(queued), V(quota), V(unschedulable), V(pulling) or V(config) (a Secret that is missing).
    None for a step that is not needed. C(build) has the keys of M(muster.kube.image_build), too, with C(created),
    C(started), C(finished) and C(duration).
  returned: success
  type: dict
  sample:
    build: null
    run:
      phase: succeeded
      reason: null
      message: ""
      waiting_for: null
runs:
  description: One result for each repetition.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: Number of the repetition, from 0.
      type: int
      sample: 0
    exit_code:
      description: Exit code of the script. None when it did not end by itself.
      type: int
      sample: 0
    signal:
      description: Number of the signal that ended the script.
      type: int
      sample: null
    stdout:
      description: What the script wrote, as a value when it is JSON, else as text.
      type: raw
      sample:
        seconds: 1.25
    stdout_json:
      description: Whether it was JSON.
      type: bool
      sample: true
    stderr:
      description: What the script wrote to its other stream.
      type: str
      sample: ""
    truncated:
      description: How many bytes of C(stdout) and C(stderr) were left out in the middle.
      type: dict
      sample:
        stdout: 0
        stderr: 0
    usage:
      description: >-
        Time and memory used by the script and its children. What needs python3 in the image is none without it.
      type: dict
      sample:
        user_seconds: 1.2
        system_seconds: 0.01
        max_rss_bytes: 10485760
    wall_seconds:
      description: How long the script ran.
      type: float
      sample: 1.26
    start:
      description: When the script started.
      type: str
      sample: "2026-01-01T00:00:00.000000Z"
    end:
      description: When the script ended.
      type: str
      sample: "2026-01-01T00:00:01.260000Z"
    script_sha256:
      description: Checksum of the script that ran.
      type: str
      sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    image:
      description: The image that ran.
      type: str
      sample: registry.example.com/python:3.12
    image_digest:
      description: Its digest, as the node tells it.
      type: str
      sample: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    os_release:
      description: What the image says about its operating system.
      type: dict
      sample:
        id: debian
        version_id: "12"
    hostname:
      description: Name of the pod's host as the script saw it.
      type: str
      sample: inspection-matmul-0b5c1d2e3f-0-x7k2p
    hwinfo:
      description: >-
        The hardware as the script saw it, the limits it had, how often it was throttled, and the node. Facts that
        could not be had are none, with the reason in C(absent).
      type: dict
      sample:
        cpu:
          brand: AMD EPYC 7763 64-Core Processor
    placement_verified:
      description: >-
        Whether the hardware asked for was found on the node and by the script. None when nothing was asked, or nobody
        could look.
      type: bool
      sample: true
    reason:
      description: >-
        Why the repetition failed, V(script_failed), V(oom), V(timeout), V(evicted), V(image_pull), V(unschedulable),
        V(quota), V(cancelled), V(lost_result), V(refused) (admission lets no pod be made) or V(config) (a Secret is
        missing, or the image cannot run the collector). None when it succeeded.
      type: str
      sample: null
    message:
      description: The reason in words.
      type: str
      sample: null
namespace:
  description: Namespace of the inspection. None with O(engine=local).
  returned: success
  type: str
  sample: default
attempt:
  description: How many times the inspection was tried, with O(force) or since the cluster failed it.
  returned: success
  type: int
  sample: 1
placements:
  description: >-
    For each repetition whether the hardware asked for was found (C(verified)), and every fact in C(found), with
    C(what), C(asked), C(source), which is V(node) or V(container), C(found) and C(ok).
  returned: success
  type: list
  elements: dict
  sample:
    - index: 0
      verified: true
      found:
        - what: arch amd64
          asked: amd64
          source: node
          found: label kubernetes.io/arch is 'amd64'
          ok: true
summary:
  description: How many repetitions succeeded and failed, and the spread of the wall times of those that succeeded.
  returned: success
  type: dict
  sample:
    succeeded: 5
    failed: 0
    wall_seconds:
      median: 1.26
      q1: 1.25
      q3: 1.27
      min: 1.24
      max: 1.31
hwinfo:
  description: The hardware of the first repetition.
  returned: success
  type: dict
  sample:
    cpu:
      brand: AMD EPYC 7763 64-Core Processor
placement_verified:
  description: Whether all repetitions had the hardware asked for.
  returned: success
  type: bool
  sample: true
image:
  description: The image the script ran in.
  returned: success
  type: str
  sample: registry.example.com/python:3.12
image_digest:
  description: Its digest.
  returned: success
  type: str
  sample: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
dockerfile:
  description: The Dockerfile of the stack. None for a ready image.
  returned: success
  type: str
  sample: null
spec_hash:
  description: The hash of the stack. None for a ready image.
  returned: success
  type: str
  sample: null
run_hash:
  description: The hash of everything that shapes the results.
  returned: success
  type: str
  sample: 0b5c1d2e3f9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c
specification:
  description: What was asked for, C(run) and C(script). None when nothing was run.
  returned: success
  type: dict
  sample:
    run:
      repetitions: 5
    script: echo hello
cached:
  description: Whether the results were there already.
  returned: success
  type: bool
  sample: false
reason:
  description: Why the inspection failed, with the words of RV(runs[].reason), or those of a failed build.
  returned: success
  type: str
  sample: null
message:
  description: The reason in words, with the last lines that a failed run wrote to stderr.
  returned: success
  type: str
  sample: null
verdict:
  description: >-
    Whether there was room for the pods when they were to be created, as RV(muster.kube.fit_info#module:verdicts). None
    when the results were there already.
  returned: success
  type: dict
verdict_text:
  description: The verdict in words.
  returned: success
  type: str
  sample: "inspection-matmul-0b5c1d2e3f: fits now"
would_run:
  description: Whether the script would be run.
  returned: in check mode
  type: bool
  sample: true
ignored:
  description: Fields of O(specification) that have no effect here.
  returned: success
  type: list
  elements: str
  sample: []
matrix:
  description: >-
    For each inspection of O(matrix) the same keys as here, with its C(name) and the names of its values in C(axes).
    Empty without a matrix.
  returned: success
  type: list
  elements: dict
  sample:
    - name: base=debian threads=one
      axes:
        base: debian
        threads: one
      phase: Succeeded
cancelled:
  description: Names of the inspections that were cancelled. Others that were named had been over.
  returned: when the state is V(cancelled)
  type: list
  elements: str
  sample: []
removed:
  description: Names of the inspections that were removed.
  returned: success
  type: list
  elements: str
  sample: []
ran:
  description: Whether the work was done inside the Ansible process (V(in_process)) or by the module (V(module)).
  returned: always
  type: str
  sample: in_process
near_misses:
  description: The nodes that nearly have the hardware asked for, with what they lack.
  returned: when no node has it
  type: list
  elements: dict
  sample:
    - node: node-1
      missing:
        - "cpu flag AVX512F: label feature.node.kubernetes.io/cpu-cpuid.AVX512F is absent"
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: run
    object: inspection default/inspection-matmul-0b5c1d2e3f
    cause: "unschedulable: none of 3 nodes has it; nearest: node-1 lacks cpu flag AVX512F"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.inspection import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
