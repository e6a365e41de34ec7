# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A matrix of inspections: its cells one after the other, so that they do not disturb one another, in one answer."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import empty_answer, has_failed
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import finished_answer as finished
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import InspectionOptions, Report
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import CANCELLED, REFUSED
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

Inspect = t.Callable[[InspectionOptions], Data]

_LEFT_OUT = "it was left out, since another cell failed"


def run_cells(terms: InspectionOptions, inspect: Inspect, report: Report) -> Data:
    """Inspect every cell; one that fails is no reason to leave out the others, unless the task says so."""
    answers: list[Data] = []
    for number, cell in enumerate(terms.cells, 1):
        if terms.fail_fast and any(map(has_failed, answers)):
            answer = _without_result(terms, "Cancelled", CANCELLED, _LEFT_OUT)
        else:
            report(f"{cell.name}: {number} of {len(terms.cells)}")
            answer = _inspected(terms, cell.options, inspect)
        answers.append({**answer, "name": cell.name, "axes": dict(cell.axes)})
    return finished(_whole(terms, answers), fail_when_failed=terms.fail_when_failed)


def _inspected(terms: InspectionOptions, cell: InspectionOptions, inspect: Inspect) -> Data:
    """The answer of one cell; what is wrong with it alone is told as its own failure, an absent cluster is not."""
    try:
        return inspect(dataclasses.replace(cell, fail_when_failed=False))
    except KubeError:
        raise
    except MusterError as error:
        return _without_result(terms, "Failed", REFUSED, str(error))


def _without_result(terms: InspectionOptions, phase: str, reason: str, message: str) -> Data:
    """The answer of a cell that was not inspected."""
    namespace = None if terms.engine == "local" else terms.namespace
    answer = empty_answer(namespace) | {"phase": phase, "reason": reason, "message": message}
    return {**answer, "would_run": False} if terms.check_mode else answer


def _whole(terms: InspectionOptions, cells: t.Sequence[Data]) -> Data:
    """The answer of the matrix: that of each cell, and what is to be said of all of them."""
    namespace = None if terms.engine == "local" else terms.namespace
    failed = [cell for cell in cells if has_failed(cell)]
    waiting = [cell["phase"] for cell in cells if cell["phase"] not in ("Succeeded", "Failed", "Cancelled")]
    told: Data = {"phase": "Failed" if failed else waiting[0] if waiting else "Succeeded"}
    if failed:
        first = failed[0]
        told["reason"] = first["reason"]
        told["message"] = f"{len(failed)} of {len(cells)} cells failed; {first['name']}: {first['message']}"
    if terms.check_mode:
        told["would_run"] = any(cell.get("would_run") for cell in cells)
    ignored = dict.fromkeys(field for cell in cells for field in cell["ignored"])
    return {
        **empty_answer(namespace, tuple(ignored)),
        **told,
        "changed": any(cell["changed"] for cell in cells),
        "cached": all(cell["cached"] for cell in cells),
        "matrix": [{key: value for key, value in cell.items() if key not in ("matrix", "changed")} for cell in cells],
    }
