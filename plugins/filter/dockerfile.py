# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter that shows the Dockerfile of a software stack."""

from __future__ import annotations

DOCUMENTATION = r"""
name: dockerfile
short_description: Show the Dockerfile of a software stack
version_added: 0.1.0
author:
  - The muster.kube authors (@muster-kube)
description:
  - Turns a software stack into the Dockerfile that an image is built from, without a cluster and without building.
  - The same stack always gives the same Dockerfile.
  - Files travel as files of the build context. Package names, requirements and URLs are lines of such files too, read
    by install scripts that never change. Nothing in a stack is ever read as shell or Dockerfile syntax.
  - Native packages are installed by the package manager found in the base while building.
  - Python packages go into the virtual environment C(/opt/muster/venv), which comes first on E(PATH) of the image.
  - An image that packages are installed into runs as root unless O(_input.user) says otherwise.
positional: context
options:
  _input:
    description:
      - The stack.
    type: dict
    required: true
    suboptions:
      base:
        description: The image to start from. Needed unless O(_input.dockerfile) is given.
        type: str
      platform:
        description: The platform of the base, for example V(linux/arm64).
        type: str
      packages:
        description: Native packages. Recommended packages are left out.
        type: list
        elements: str
      package_manager:
        description: >-
          The program that installs native packages. With V(auto) it is the first of dnf, microdnf, yum, zypper,
          apt-get and apk that the base has.
        type: str
        choices: [auto, apt, dnf, microdnf, yum, zypper, apk]
        default: auto
      update:
        description: Whether to bring the native packages of the base up to date.
        type: bool
        default: false
      python:
        description: What to install into the virtual environment. The base, or O(_input.packages), brings python3.
        type: dict
        suboptions:
          packages:
            description: Packages, each as in a requirements file.
            type: list
            elements: str
          requirements:
            description: The text of a requirements file.
            type: str
          pipfile:
            description: >-
              A Pipfile, as text or as a mapping. With a lock it only serves to check that the lock belongs to it;
              without one its packages are installed.
            type: raw
          pipfile_lock:
            description: >-
              A Pipfile.lock, as text or as a mapping. The packages of its C(default) part are installed, each with its
              hash and from the source it names. Entries from repositories, paths or URLs are refused.
            type: raw
          pyproject:
            description: The text of a pyproject.toml. The dependencies of its C([project]) table are installed.
            type: str
          extras:
            description: Optional dependencies of the pyproject to install as well.
            type: list
            elements: str
          indexes:
            description: >-
              Where packages come from. The first replaces the default index, the others are searched as well. An index
              called like a source of the Pipfile stands in for that source.
            type: list
            elements: dict
            suboptions:
              name:
                description: A name.
                type: str
              url:
                description: The URL, without a password.
                type: str
              secret:
                description: The ID of the build secret that holds the URL.
                type: str
              verify:
                description: Whether to check the certificate.
                type: bool
                default: true
          installer:
            description: The program that installs. uv is installed by pip when the base has none.
            type: str
            choices: [pip, uv]
            default: pip
          upgrade_pip:
            description: Whether to upgrade pip first.
            type: bool
            default: false
          isolated:
            description: Whether to hide the Python packages of the base.
            type: bool
            default: false
      files:
        description: Files of the image, or of the build context when O(_input.dockerfile) is given.
        type: list
        elements: dict
        suboptions:
          path:
            description: An absolute path in the image, or one relative to the build context.
            type: str
            required: true
          content:
            description: The content as text.
            type: str
          content_base64:
            description: The content in base64, for any bytes.
            type: str
          mode:
            description: The mode, in octal and quoted.
            type: str
            default: '0644'
          owner:
            description: User, or user and group, such as V(1000:1000).
            type: str
          before_packages:
            description: Whether the file has to be there before packages are installed.
            type: bool
            default: false
      environment:
        description: >-
          Variables of the image, as a mapping or as a list of C(name) and C(value). Values are taken literally.
        type: raw
      labels:
        description: Labels of the image.
        type: dict
      user:
        description: The user, or user and group, that the image runs as.
        type: str
      workdir:
        description: The directory that the image starts in.
        type: str
      secrets:
        description: Values that are mounted while the image is built and are in none of its layers.
        type: list
        elements: dict
        suboptions:
          id:
            description: The name; the value is mounted at C(/run/secrets/ID).
            type: str
            required: true
          use:
            description:
              - What the value is for. V(environment) are lines NAME=value, such as proxies. V(ca) is a bundle of
                certificates. V(native_config) is a configuration file of the package manager (for apk a file of
                repositories). The others are what their names say.
              - V(mount) only mounts it.
            type: str
            choices: [mount, environment, ca, netrc, pip_config, uv_config, native_config]
            default: mount
          secret:
            description: The Kubernetes Secret that holds it.
            type: str
          key:
            description: The key in that Secret, the ID when not given.
            type: str
          file:
            description: The file that holds it, for a build without a cluster.
            type: str
      dockerfile:
        description: >-
          A Dockerfile of your own, used as it is. Only O(_input.files), O(_input.secrets) and O(_input.platform) may
          stand beside it.
        type: str
  context:
    description:
      - Whether to return the files of the build context and the hash of the stack too. Written out, they can be built
        by hand.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: What would be built?
  ansible.builtin.debug:
    msg: "{{ (stack | muster.kube.dockerfile).splitlines() }}"
  vars:
    stack:
      base: docker.io/library/debian:13-slim
      packages: [python3-venv, libgomp1]
      python:
        packages: [numpy==2.3.1]
      files:
        - path: /work/settings.ini
          content: "[run]\nname = \"a 'b' $c\"\n"
      environment:
        OMP_NUM_THREADS: "2"

- name: What the context holds
  ansible.builtin.debug:
    msg: "{{ (stack | muster.kube.dockerfile(context=true)).files | map(attribute='name') }}"
  vars:
    stack:
      base: docker.io/library/debian:13-slim
      packages: [libgomp1]
"""

RETURN = r"""
_value:
  description:
    - The text of the Dockerfile.
    - With O(context) a mapping of C(dockerfile), C(files) (a list of C(name), C(size), C(mode) and C(content_base64))
      and C(spec_hash).
  type: raw
"""

import base64
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import spec_hash, stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import (
    GENERATOR_VERSION,
    build_context,
)


def dockerfile(value: t.Any, context: bool = False) -> str | dict[str, t.Any]:
    """The Dockerfile of a stack, alone or with what lies beside it."""
    try:
        stack = stack_from_data(value, "the stack")
        built = build_context(stack)
    except MusterError as error:
        raise AnsibleFilterError(f"muster.kube.dockerfile: {error}") from error
    if not context:
        return built.dockerfile
    files = [
        {
            "name": file.name,
            "size": len(file.content),
            "mode": file.mode,
            "content_base64": base64.b64encode(file.content).decode(),
        }
        for file in built.files
    ]
    return {"dockerfile": built.dockerfile, "files": files, "spec_hash": spec_hash(stack, GENERATOR_VERSION)}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filter under its short name."""
        return {"dockerfile": dockerfile}
