# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter that writes a number or a quantity in Kubernetes' canonical form."""

from __future__ import annotations

DOCUMENTATION = r"""
name: to_quantity
short_description: Write a number or a quantity in Kubernetes' canonical form
version_added: 0.1.0
author:
  - The muster.kube authors (@muster-kube)
description:
  - Returns the text that a Kubernetes API server would return for this quantity.
  - Useful to compare what was asked for with what the server shows, and to write computed sizes into definitions.
positional: form
options:
  _input:
    description:
      - A number of whole units (cores, bytes, devices), or a quantity in any legal form.
    type: raw
    required: true
  form:
    description:
      - V(decimal) uses the suffixes n, u, m, k, M, G, T, P and E; V(binary) uses Ki to Ei for whole amounts of 1024 and
        more; V(exponent) writes powers of ten such as V(12e6).
      - When omitted, a quantity keeps the form it was written in, and numbers become decimal.
    type: str
    choices: [decimal, binary, exponent]
seealso:
  - plugin: muster.kube.from_quantity
    plugin_type: filter
"""

EXAMPLES = r"""
- name: As the API server would show it
  ansible.builtin.debug:
    msg: "{{ '1.5Gi' | muster.kube.to_quantity }}" # => 1536Mi

- name: Half of a node's memory, in binary units
  ansible.builtin.debug:
    msg: "{{ (('8Gi' | muster.kube.from_quantity) / 2) | int | muster.kube.to_quantity('binary') }}" # => 4Gi
"""

RETURN = r"""
_value:
  description: The quantity as text.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    canonical,
    format_quantity,
    parse_quantity,
)


def to_quantity(value: t.Any, form: str | None = None) -> str:
    """The canonical text, in the form asked for or the one it was written in."""
    try:
        if form is None:
            return canonical(value)
        if form == "decimal" or form == "binary" or form == "exponent":
            return format_quantity(parse_quantity(value), form)
        raise BadInput("write", f"quantity {value!r}", f"unknown form {form!r}; known are decimal, binary, exponent")
    except MusterError as error:
        raise AnsibleFilterError(f"muster.kube.to_quantity: {error}") from error


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filter under its short name."""
        return {"to_quantity": to_quantity}
