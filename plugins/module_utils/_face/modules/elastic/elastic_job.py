# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of elastic_job: that of gang, where every gang is elastic."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._face.gang_settings import (
    batch_argument_spec,
    gang_settings,
    range_argument_spec,
    resize_argument_spec,
    settings_argument_spec,
    shared_settings,
    task_argument_spec,
    task_options,
)
from ansible_collections.muster.kube.plugins.module_utils._face.gang_source import (
    gang_entries,
    gang_source,
    one_or_many_gangs,
)
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.job import run_elastic_jobs
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

_LISTED = "jobs"
_AUTO = "auto"
_ELASTIC: Spec = {
    "range": {"type": "dict", "options": range_argument_spec()},
    "size": {"type": "str"},
    **resize_argument_spec(),
    "global_batch": {"type": "dict", "options": batch_argument_spec()},
}


def _options(params: Params, check_mode: bool) -> GangOptions:
    """The options behind validated ones."""
    asks = tuple(
        GangAsk(gang_source(entry, params["namespace"]), _settings(entry, params))
        for entry in gang_entries(params, _LISTED)
    )
    return task_options(params, asks, check_mode)


def _settings(entry: Params, shared: Params) -> GangSettings:
    """The settings of one job; without a range of its own its objects name the sizes."""
    terms = shared_settings(_ELASTIC, entry, shared)
    range_, batch = terms.pop("range"), terms.pop("global_batch")
    if batch is not None:
        range_ = {**(range_ or {}), "global_batch": batch}
    return gang_settings(entry, shared, {**terms, "range": range_, "size": _size(terms["size"])})


def _size(value: t.Any) -> int | None:
    """The option size; None leaves it to the dispatcher."""
    if value is None or value == _AUTO:
        return None
    if not str(value).isdecimal():
        raise BadInput("read", "size", f"a whole number or {_AUTO} is needed, not {value!r}")
    return int(value)


_JOBS, _RULES = one_or_many_gangs(
    {**settings_argument_spec(), **_ELASTIC}, ("definition", "src", "name"), listed=_LISTED, declared=False
)
FACE = Face(
    name="elastic_job",
    spec={**auth_argument_spec(), **_JOBS, **task_argument_spec()},
    rules=_RULES,
    options=_options,
    work=lambda options, call: run_elastic_jobs(lambda: connect(call.auth), options, call.report).as_result(
        diff=call.diff
    ),
    libraries=check_libraries,
)
