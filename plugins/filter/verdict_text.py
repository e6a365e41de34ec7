# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter that puts a verdict into words."""

from __future__ import annotations

DOCUMENTATION = r"""
name: verdict_text
short_description: Put a verdict into words
version_added: 0.1.0
description:
  - Turns a verdict as returned by M(muster.kube.fit_info) into a few plain sentences, the answer, what is short by how
    much and where, and what would help.
author:
  - The muster.kube authors (@muster-kube)
positional: _input
options:
  _input:
    description: A verdict.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Ask
  muster.kube.fit_info:
    namespace: default
    podsets:
      - count: 2
        requests:
          cpu: "4"
  register: answer

- name: Tell
  ansible.builtin.debug:
    msg: "{{ (answer.verdicts | first | muster.kube.verdict_text).splitlines() }}"
"""

RETURN = r"""
_value:
  description: The verdict in words, one fact to a line.
  type: str
"""

import collections.abc as c
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import verdict_text

_NEEDED = ("gang", "answer", "how", "reason", "detail", "layers", "advice", "steering", "not_modelled", "may_preempt")


def to_text(verdict: t.Any) -> str:
    """The words for a verdict; anything else is refused by name."""
    if not isinstance(verdict, c.Mapping):
        raise AnsibleFilterError(f"muster.kube.verdict_text needs a verdict, this is a {type(verdict).__name__}")
    missing = [key for key in _NEEDED if key not in verdict]
    if missing:
        raise AnsibleFilterError(f"muster.kube.verdict_text needs a verdict, this mapping lacks {', '.join(missing)}")
    return verdict_text(verdict)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, c.Callable[..., t.Any]]:
        """By name."""
        return {"verdict_text": to_text}
