# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of gang."""

from __future__ import annotations

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
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import run_gangs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect

_ELASTIC: Spec = {
    "elastic": {
        "type": "dict",
        "options": {
            "range": {
                "type": "dict",
                "options": {
                    **range_argument_spec(),
                    "global_batch": {"type": "dict", "options": batch_argument_spec()},
                },
            },
            "size": {"type": "int"},
            **resize_argument_spec(),
        },
    }
}


def _options(params: Params, check_mode: bool) -> GangOptions:
    """The options behind validated ones."""
    gangs = tuple(
        GangAsk(gang_source(entry, params["namespace"]), _settings(entry, params)) for entry in gang_entries(params)
    )
    return task_options(params, gangs, check_mode, store=params["store"])


def _settings(entry: Params, shared: Params) -> GangSettings:
    """The settings of one gang."""
    return gang_settings(entry, shared, **shared_settings(_ELASTIC, entry, shared))


_GANGS, _RULES = one_or_many_gangs({**settings_argument_spec(), **_ELASTIC}, ("definition", "src", "name"))
FACE = Face(
    name="gang",
    spec={
        **auth_argument_spec(),
        **_GANGS,
        **task_argument_spec(),
        "store": {"type": "str", "default": "auto", "choices": ["auto", "configmap", "appwrapper"]},
    },
    rules=_RULES,
    options=_options,
    work=lambda options, call: run_gangs(lambda: connect(call.auth), options, call.report).as_result(diff=call.diff),
    libraries=check_libraries,
)
