# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter that turns a Kubernetes quantity into a number."""

from __future__ import annotations

DOCUMENTATION = r"""
name: from_quantity
short_description: Turn a Kubernetes quantity into a number
version_added: 0.1.0
author:
  - The muster.kube authors (@muster-kube)
description:
  - Reads a quantity as Kubernetes does, in every legal form, and returns it as a number of whole units
    (cores, bytes, devices).
  - Digits below one billionth are rounded away from zero, and binary amounts end at 2^63 - 1, as in Kubernetes.
options:
  _input:
    description:
      - The quantity, for example V(500m), V(1.5Gi), V(12e6) or a plain number.
    type: raw
    required: true
seealso:
  - plugin: muster.kube.to_quantity
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Bytes of memory in a request
  ansible.builtin.debug:
    msg: "{{ '2Gi' | muster.kube.from_quantity }}" # => 2147483648

- name: Cores as a number
  ansible.builtin.debug:
    msg: "{{ '1050m' | muster.kube.from_quantity }}" # => 1.05
"""

RETURN = r"""
_value:
  description: The amount; an integer when it has no fraction, a float otherwise.
  type: raw
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO, parse_quantity


def from_quantity(value: t.Any) -> int | float:
    """The amount in whole units, exact when it is an integer."""
    try:
        nanos = parse_quantity(value)
    except MusterError as error:
        raise AnsibleFilterError(f"muster.kube.from_quantity: {error}") from error
    return nanos / NANO if nanos % NANO else nanos // NANO


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filter under its short name."""
        return {"from_quantity": from_quantity}
