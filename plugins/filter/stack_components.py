# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter that makes components of the rows of a catalogue."""

from __future__ import annotations

DOCUMENTATION = r"""
name: stack_components
short_description: List the components that profiles of the operator stack come to
version_added: 0.1.0
author:
  - The muster.kube authors (@muster-kube)
description:
  - Makes of a catalogue, as the role P(muster.kube.operator_stack#role) brings one, the components of some profiles
    and wishes, in the form in which M(muster.kube.component) takes them. No cluster is asked.
  - What a component depends on is added, and comes before it. Of each component the first version of the table is taken
    that nothing speaks against.
  - Unknown keys, components, features and profiles are refused with the nearest that there is, and so are components
    that cannot be in one cluster.
positional: profile, components, kubernetes
options:
  _input:
    description:
      - "The catalogue: C(components), a list of rows; C(versions), the versions of each row with their limits; and
        C(profiles)."
    type: dict
    required: true
  profile:
    description:
      - A profile, or a list of them.
    type: list
    elements: str
    default: []
  components:
    description:
      - Wishes by the names of rows. A row that is named is part of the stack, with C(skip=true) it is not.
      - C(version), C(features) (a list, or a mapping with the parameters of each) and every address, value and object
        of the row may be given. Mappings are laid over those of the row, lists take their place.
    type: dict
    default: {}
  kubernetes:
    description:
      - The version of the API server. With it only versions are taken that are known to work there.
    type: str
"""

EXAMPLES = r"""
- name: What would the profile gang install on Kubernetes 1.33, with eight virtual GPUs for each real one?
  ansible.builtin.debug:
    msg: "{{ catalogue | muster.kube.stack_components('gang', wishes, kubernetes='1.33') | map(attribute='name') }}"
  vars:
    wishes:
      nvidia-gpu-operator:
        features:
          time_slicing:
            replicas: 8
      lws:
        skip: true
  # => ["kueue", "kuberay", "jobset", "nfd", "nvidia-gpu-operator"]
"""

RETURN = r"""
_value:
  description: The components, each after those it depends on.
  type: list
  elements: dict
  contains:
    name:
      description: Name of the row.
      type: str
      sample: kueue
    version:
      description: The version that was chosen.
      type: str
      sample: 0.19.2
    source:
      description: >-
        Where the objects come from, V(helm), V(manifest), V(kustomize) or V(olm), with the keys that it takes.
      type: str
      sample: helm
    depends_on:
      description: Those of the components that come before it.
      type: list
      elements: str
      sample: []
    row:
      description: >-
        What the catalogue knows besides: title, proof, the range of Kubernetes versions, what is expected in the
        cluster and what goes first when it is removed.
      type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.component.catalogue import component_options
from ansible_collections.muster.kube.plugins.module_utils._policy.component.catalogue_rows import read_catalogue


def stack_components(
    value: t.Any, profile: t.Any = (), components: t.Any = None, kubernetes: str | None = None
) -> list[dict[str, t.Any]]:
    """The components of profiles and wishes."""
    profiles = [profile] if isinstance(profile, str) else profile or []
    try:
        if not isinstance(profiles, list | tuple) or not all(isinstance(name, str) for name in profiles):
            raise BadInput("read", "the profile", f"a name or a list of names is needed, not {profile!r}")
        return component_options(read_catalogue(value), [name for name in profiles if name], components, kubernetes)
    except MusterError as error:
        raise AnsibleFilterError(f"muster.kube.stack_components: {error}") from error


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filter under its short name."""
        return {"stack_components": stack_components}
