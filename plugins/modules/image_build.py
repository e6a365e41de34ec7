#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_build
short_description: Build a container image for a software stack, once
version_added: 0.1.0
description:
  - Builds an image from a description of a software stack and pushes it to a registry. The Dockerfile follows from the
    description alone, files travel as files, and secrets are only mounted while the image is built.
  - The image is identified by a hash of its description. The same description is not built again, and a repeated task
    writes nothing.
  - In the cluster the image is built by buildah in a Job. Nothing needs to be installed. What became of it is kept in a
    ConfigMap, so that a task that was killed goes on where it was when it is run again.
  - Without a cluster it is built by the buildah or podman of the machine.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes
  - muster.kube._attributes.action_group
author:
  - The muster.kube authors (@muster-kube)
attributes:
  check_mode:
    support: full
    details:
      - Returns the Dockerfile and whether the image would be built. Which tier works is not tried.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - With O(force=true) the image is built each time. A build that failed is tried again.
options:
  state:
    description:
      - With V(present) there is an image for the stack.
      - With V(absent) a running build is ended, and what is known about the build is deleted. Its image stays in the
        registry. With O(engine=podman) the image is removed from the local storage.
    type: str
    default: present
    choices:
      - present
      - absent
  namespace:
    description:
      - Namespace in which the image is built and the record is kept.
    type: str
    default: default
  stack:
    description:
      - What the image is made of, as a mapping. Unknown keys are refused.
      - Keys are C(base), C(platform), C(packages) (of the distribution), C(package_manager), C(update), C(python),
        C(files), C(environment), C(labels), C(user), C(workdir), C(secrets), or instead of most of them C(dockerfile).
      - C(python) has C(packages), C(requirements), C(pipfile), C(pipfile_lock), C(pyproject), C(extras), C(indexes),
        C(installer), C(upgrade_pip) and C(isolated).
      - An entry of C(files) has C(path), C(content) or C(content_base64), C(mode), C(owner) and C(before_packages).
      - An entry of C(secrets) has an C(id), a C(use), and for the engine V(job) the C(secret) and C(key) of a
        Kubernetes Secret in O(namespace), for V(podman) a C(file).
      - The base counts by its name. When it moves under the same name, use O(force=true), or name it by digest.
    type: dict
  image:
    description:
      - Repository the image is pushed to, without a tag, such as V(registry.example.com/team/stack).
      - With O(engine=none) or without O(stack), the full name of a ready image.
    type: str
  tag:
    description:
      - Tag of the image. By default V(sha-) and the beginning of the hash of the stack.
    type: str
  name:
    description:
      - Name of the record of a build, to remove one by name.
    type: str
  engine:
    description:
      - V(job) builds in the cluster, V(podman) with the buildah or podman of the machine where the task runs and
        without any cluster, V(none) takes O(image) as it is.
      - V(auto) is V(job) with a O(stack) and V(none) without.
    type: str
    default: auto
    choices:
      - auto
      - job
      - podman
      - none
  tier:
    description:
      - How much the build is allowed in its pod. V(userns) is root in a user namespace of its own, V(baseline) root
        with the usual rights of a container, V(unconfined) without seccomp and AppArmor profiles, V(privileged)
        everything.
      - V(auto) takes the strictest one in which a tiny image can be built, but never V(privileged), which has to be
        asked for. This is tried once for each builder image and namespace and remembered until O(force=true). When
        none works, the error says of each why.
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
      - Image with buildah and a shell in which the image is built. Sites without access to the default name their own.
      - A tag can be moved. Name the image by digest where that matters; RV(builder_digest) tells the one that was used.
    type: str
    default: quay.io/buildah/stable:v1.43.0
  requests:
    description:
      - Resources the build asks for, as Kubernetes quantities by name. By default C(cpu) 500m and C(memory) 512Mi,
        unless O(limits) has them.
    type: dict
  limits:
    description:
      - Limits of the build, as Kubernetes quantities by name. A build that needs more memory fails with the reason
        V(oom).
    type: dict
  hardware:
    description:
      - Hardware of the node on which to build, with C(arch), C(cpu), C(gpu) and C(node_selector). A request that no
        node meets is refused before anything is created.
    type: dict
  tolerations:
    description:
      - Tolerations of the build's pod.
    type: list
    elements: dict
  service_account:
    description:
      - ServiceAccount of the build's pod. Its token is not mounted. On OpenShift it needs the security context
        constraint C(anyuid).
    type: str
  pull_secret:
    description:
      - Name of a Secret of type C(kubernetes.io/dockerconfigjson) for the registries of the base and of the builder.
    type: str
  push_secret:
    description:
      - Name of a Secret of type C(kubernetes.io/dockerconfigjson) for the registry of O(image). Only the container that
        pushes has it, in which nothing of the image runs.
    type: str
  insecure_registries:
    description:
      - Registries to be used without TLS or with certificates nobody vouches for. With O(engine=podman) any entry
        switches the verification off for all registries of the build.
    type: list
    elements: str
  host_network:
    description:
      - Whether the build uses the network of its node, for example where pods cannot reach a package index.
    type: bool
    default: false
  cache:
    description:
      - Repository in which layers are kept between builds. By default, and with V(none), no layer is kept. It is
        written while the image is built, with the account of O(pull_secret).
    type: str
  push:
    description:
      - Whether the image is pushed. In the cluster it always is. With O(engine=podman) the default is V(false), and the
        image stays in the local storage.
    type: bool
  timeout:
    description:
      - How long the build may run, in seconds or like V(1h30m). Then it is ended with the reason V(timeout).
    type: str
    default: 1h
  start_timeout:
    description:
      - How long the build may wait for quota, a node or the builder image, in seconds or like V(1h30m).
    type: str
    default: 10m
  force:
    description:
      - Build even if the same stack was built before.
    type: bool
    default: false
  wait:
    description:
      - Whether to wait for the end of the build. A later run of the task takes the result. With O(tier=auto) the task
        still waits until it knows which tier works.
    type: bool
    default: true
  ttl:
    description:
      - How long the record is kept after the build, in seconds or like V(30d). Records whose time is over are deleted
        by the next task of this module in their namespace. By default they are kept.
    type: str
  context_dest:
    description:
      - A directory on the machine where the task runs, into which the Dockerfile and all files it needs are written
        instead of building. C(podman build), C(buildah build) or C(docker build) makes the image of it by hand.
      - Neither a cluster nor a builder is needed. Secrets are not written. Each one of the stack has to be given with
        C(--secret id=ID,src=FILE).
      - Other files in the directory are left alone.
    type: str
  build_script:
    description:
      - The script that runs in the builder image. By default that of the collection, which the action plugin reads on
        the controller; seldom set.
    type: str
requirements:
  - kubernetes >= 24.2.0 (not with O(engine=podman) and O(engine=none))
  - buildah or podman (with O(engine=podman))
  - packaging (for a stack with a Pipfile, its lock or a pyproject)
seealso:
  - module: muster.kube.image_build_info
notes:
  - The account needs the rights to create, get, list, watch, replace and delete ConfigMaps and Jobs, to get, list and
    watch pods and Events, and to get C(pods/log), all in O(namespace). For O(hardware) it should also list nodes.
  - Namespaces with the Pod Security level C(restricted) cannot build images. Build in another one.
  - What is installed runs with the build secrets of its own step. The values of secrets are masked in the log, the
    record and the result, and an image that holds one is not pushed. The documentation of stacks says what a hostile
    package can still do.
"""

EXAMPLES = r"""
- name: An image with two native packages, a Python package and a file
  muster.kube.image_build:
    namespace: builds
    image: registry.example.com/team/bench
    push_secret: registry
    stack:
      base: docker.io/library/debian:12
      packages: [libopenblas0, python3-venv]
      python:
        packages: [numpy==2.2.1]
      files:
        - path: /etc/bench.conf
          content: |
            threads = 4
  register: built

- name: Build on this machine and do not push
  muster.kube.image_build:
    engine: podman
    image: localhost/bench
    stack:
      base: docker.io/library/debian:12

- name: Write down what would be built, to build it by hand
  muster.kube.image_build:
    image: localhost/bench
    context_dest: /tmp/bench
    stack:
      base: docker.io/library/debian:12
      packages: [libopenblas0]

- name: Forget the build
  muster.kube.image_build:
    namespace: builds
    name: build-0123456789
    state: absent
"""

RETURN = r"""
image:
  description: Full name of the image.
  returned: when the state is present
  type: str
  sample: registry.example.com/team/bench:sha-2f5c0d6e1a9b3c4d5e6f
digest:
  description: Digest of the image in the registry, or in the local storage when it was not pushed.
  returned: when the state is present
  type: str
  sample: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
image_id:
  description: Id of the image.
  returned: when the state is present
  type: str
  sample: sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
base_digest:
  description: Digest of the base as it was found. None when only an own Dockerfile knows the base.
  returned: when the state is present
  type: str
  sample: sha256:fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9
spec_hash:
  description: Hash of everything that shapes the image.
  returned: when the state is present
  type: str
  sample: 2f5c0d6e1a9b3c4d5e6f
cached:
  description: Whether the image had been built before.
  returned: when the state is present
  type: bool
  sample: false
packages:
  description: >-
    What is installed in the image, by package manager (C(dpkg), C(rpm), C(apk), C(pip)), each a list of names and
    versions, or None when the image does not have it.
  returned: when the state is present
  type: dict
  sample:
    dpkg:
      - {name: libopenblas0, version: 0.3.21+ds-4}
    rpm: null
    apk: null
    pip:
      - {name: numpy, version: 2.2.1}
log:
  description: The end of what the builder printed.
  returned: when the state is present
  type: str
  sample: "STEP 1/4: FROM docker.io/library/debian:12"
log_truncated:
  description: How many bytes of the log were dropped before its end.
  returned: when the state is present
  type: int
  sample: 0
builder_digest:
  description: Digest of the builder image that was used. None when nothing was built in the cluster.
  returned: when the state is present and the engine is V(job)
  type: str
  sample: sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
created:
  description: When the image was made, by the clock of the builder. Of a stored build it is when that was built.
  returned: when the state is present
  type: str
  sample: "2026-01-01T00:00:41Z"
started_at:
  description: When the build began.
  returned: when the state is present
  type: str
  sample: "2026-01-01T00:00:00Z"
finished_at:
  description: When the build and the push had ended.
  returned: when the state is present
  type: str
  sample: "2026-01-01T00:00:41Z"
duration:
  description: Seconds the build and the push took.
  returned: when the state is present
  type: float
  sample: 41.0
reason:
  description: >-
    Why there is no image, one of V(build_failed), V(push_failed), V(oom), V(timeout), V(quota), V(unschedulable),
    V(image_pull), V(evicted), V(cancelled), V(lost_result), V(refused) (admission lets no pod be made) and V(config) (a
    Secret is missing, or the builder cannot be started). None when there is one.
  returned: when the state is present
  type: str
  sample: null
message:
  description: The reason in words.
  returned: when the state is present
  type: str
  sample: ""
engine_used:
  description: The engine that was used.
  returned: when the state is present
  type: str
  sample: job
program:
  description: The program that built it on this machine.
  returned: when it was built on this machine
  type: str
  sample: podman
pushed:
  description: Whether an image built on this machine was pushed.
  returned: when it was built on this machine
  type: bool
tier:
  description: The tier in which it was built. None without a cluster.
  returned: when the state is present
  type: str
  sample: baseline
tiers_refused:
  description: For each stricter tier that was tried, why it does not work.
  returned: with the engine V(job)
  type: dict
  sample:
    userns: the runtime does not support user namespaces
dockerfile:
  description: The Dockerfile.
  returned: when the state is present
  type: str
  sample: FROM docker.io/library/debian:12
context_dest:
  description: The directory with the Dockerfile.
  returned: with O(context_dest)
  type: str
  sample: /tmp/bench
context_files:
  description: The files that the build needs, by their paths in the directory.
  returned: with O(context_dest)
  type: list
  elements: str
  sample:
    - Dockerfile
    - files/install-native.sh
phase:
  description: V(pending), V(running), V(succeeded) or V(failed).
  returned: with the engine V(job)
  type: str
  sample: succeeded
waiting_for:
  description: >-
    What a build waits for that has not started, V(queued), V(quota), V(unschedulable), V(pulling) or V(config) (a
    Secret that is missing).
  returned: with the engine V(job)
  type: str
  sample: null
name:
  description: Name of the record.
  returned: with the engines V(job) and V(podman)
  type: str
  sample: build-0123456789
namespace:
  description: Namespace of the record.
  returned: with the engine V(job)
  type: str
  sample: builds
attempt:
  description: How often it was tried.
  returned: with the engine V(job)
  type: int
  sample: 1
node:
  description: Node on which it was built.
  returned: when the state is present
  type: str
  sample: node-1
swept:
  description: Records that were deleted because their time was over.
  returned: with the engine V(job)
  type: list
  elements: str
  sample: []
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
    action: build
    object: image registry.example.com/team/bench:sha-2f5c0d6e1a9b3c4d5e6f
    cause: "build_failed: Error: building at STEP RUN apt-get: exit status 100"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.image_build import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
