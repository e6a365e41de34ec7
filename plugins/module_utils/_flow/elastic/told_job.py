# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What results tell of an elastic job beside what they tell of every gang."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.allotment import resize_method
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import WAITING_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data


def told_job(
    gang: Mapping[str, t.Any],
    spec: GangSpec | None,
    progress: Data | None = None,
    *,
    suspended_jobs_change: bool = False,
) -> Data:
    """An entry about a gang as one about an elastic job; without a specification nothing is known of its sizes.

    suspended_jobs_change: the server lets suspended Jobs take other resources.
    """
    terms = spec.elastic if spec is not None else None
    range_, method, resize = None, None, gang.get("resize")
    if spec is not None and terms is not None:
        range_ = {key: value for key, value in terms.as_result().items() if key != "size"}
        method = resize_method(
            spec.objects, terms.range, suspended_jobs_change=suspended_jobs_change, namespace=spec.namespace
        )
    return {
        **gang,
        "range": range_,
        "method": method,
        "progress": progress,
        "restarts": restarts_of(gang["phase"], gang["attempt"]),
        # Of a change of size that is only planned nobody knows yet.
        "lost_seconds": resize.get("lost_seconds", 0.0) if resize is not None and "method" in resize else None,
    }


def restarts_of(phase: object, attempt: object) -> int:
    """How often it was started after its first start; an attempt that waits has not begun."""
    begun = attempt if isinstance(attempt, int) else 0
    return max(0, begun - (2 if phase in WAITING_PHASES else 1))
