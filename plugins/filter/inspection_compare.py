# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter that compares the results of inspections."""

from __future__ import annotations

DOCUMENTATION = r"""
name: inspection_compare
short_description: Compare the results of inspections, with their noise in mind
version_added: 0.1.0
author:
  - The muster.kube authors (@muster-kube)
description:
  - Compares one metric of two or more results. The first result is the baseline, the others are compared with it.
  - A change is called better or worse when the medians differ by more than O(threshold) and the order of the runs
    would seldom come from chance alone (Mann-Whitney test, two-sided, at 5 %). It is the same only when the runs rule
    a change beyond O(threshold) out. Otherwise it is unclear, and more repetitions are needed.
  - The same input always gives the same answer.
  - Runs that failed and runs without the metric are left out and listed.
  - Results from different hardware are refused unless O(allow_different_hardware) is set. Hardware is what the runs
    saw, the CPU (architecture, vendor, family, model, level), their limits (CPU, memory, number of CPUs) and the GPUs.
positional: metric
options:
  _input:
    description:
      - Two or more results of inspections, each with its C(runs).
    type: list
    elements: dict
    required: true
  metric:
    description:
      - What to compare, as a path into a run with dots, for example V(usage.user_seconds), or V(stdout.@result.rate)
        for a script that prints JSON.
    type: str
    default: wall_seconds
  threshold:
    description: By how many percent the medians have to differ.
    type: float
    default: 5.0
  direction:
    description: Whether lower or higher values are better.
    type: str
    choices: [lower, higher]
    default: lower
  allow_different_hardware:
    description: Whether to compare results from different hardware.
    type: bool
    default: false
  allow_unclear:
    description:
      - Whether a comparison passes when the runs cannot tell, so that its verdict is unclear.
    type: bool
    default: false
  assertions:
    description:
      - What the median of each result has to be. The bounds are fractions of the target, so C(lower=-0.1) allows
        10 percent below it. A bound that is missing is none.
    type: list
    elements: dict
    suboptions:
      metric:
        description: A path as in O(metric), which is used when it is missing.
        type: str
      target:
        description: The value expected.
        type: float
        required: true
      lower:
        description: How far below the target is accepted, zero or negative.
        type: float
      upper:
        description: How far above the target is accepted, zero or positive.
        type: float
      unit:
        description: The unit, to be shown.
        type: str
"""

EXAMPLES = r"""
- name: Is the new stack slower?
  ansible.builtin.assert:
    that: comparison.passed
    fail_msg: "{{ comparison.comparisons }}"
  vars:
    comparison: "{{ results | muster.kube.inspection_compare('wall_seconds', assertions=expected) }}"
    expected:
      - target: 10.0
        upper: 0.2
        unit: s
    results:
      - name: old
        runs:
          - {exit_code: 0, wall_seconds: 10.1}
          - {exit_code: 0, wall_seconds: 10.2}
          - {exit_code: 0, wall_seconds: 10.0}
          - {exit_code: 0, wall_seconds: 10.3}
      - name: new
        runs:
          - {exit_code: 0, wall_seconds: 10.2}
          - {exit_code: 0, wall_seconds: 10.1}
          - {exit_code: 0, wall_seconds: 10.2}
          - {exit_code: 0, wall_seconds: 9.9}
"""

RETURN = r"""
_value:
  description: The comparison.
  type: dict
  contains:
    metric:
      description: What was compared.
      type: str
    direction:
      description: Whether lower or higher is better.
      type: str
    threshold_percent:
      description: By how many percent the medians had to differ.
      type: float
    baseline:
      description: The name of the first result.
      type: str
    hardware:
      description: >-
        C(same) is true, false, or null when a result does not tell its CPU; C(differences) are sentences.
      type: dict
    results:
      description: >-
        For each result its C(name), the number of runs C(used), the indexes of runs that C(failed) and of those where
        the metric is C(missing), C(median), C(quartiles), C(minimum), C(maximum), and the distance of the quartiles as
        C(spread_percent) of the median.
      type: list
      elements: dict
    comparisons:
      description: >-
        For each result but the first C(name), C(baseline), C(verdict) (better, same, worse, unclear or unknown),
        C(change_percent) of the median, its 95 % bootstrap interval C(interval_percent), C(p_value) of the test,
        the smallest change C(detectable_percent) that as many runs with this noise would show in four of five cases,
        whether the verdict is C(conclusive), and a C(reason) when it is not.
      type: list
      elements: dict
    assertions:
      description: >-
        For each assertion and result C(metric), C(name), C(value), C(target), C(low), C(high), C(unit) and C(ok).
      type: list
      elements: dict
    passed:
      description: Whether every assertion holds and every verdict is better or same, or unclear where that is allowed.
      type: bool
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.comparison import (
    compare_results,
    read_terms,
)


def inspection_compare(
    results: t.Any,
    metric: str = "wall_seconds",
    threshold: float = 5.0,
    direction: str = "lower",
    allow_different_hardware: bool = False,
    assertions: t.Sequence[t.Any] | None = None,
    allow_unclear: bool = False,
) -> dict[str, t.Any]:
    """The comparison of each result with the first."""
    terms = {
        "metric": metric,
        "threshold": threshold,
        "direction": direction,
        "allow_different_hardware": allow_different_hardware,
        "allow_unclear": allow_unclear,
    }
    try:
        return compare_results(results, read_terms(terms), assertions or ())
    except MusterError as error:
        raise AnsibleFilterError(f"muster.kube.inspection_compare: {error}") from error


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filter under its short name."""
        return {"inspection_compare": inspection_compare}
