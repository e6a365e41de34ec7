# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of gang."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._face.gang_source import (
    gang_entries,
    gang_source,
    one_or_many_gangs,
)
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import run_gangs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.reading import AXES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GROWTHS
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import without_none


def _settings_spec() -> Spec:
    """How a gang is queued and run: what a list of gangs may share."""
    return {
        "queue": {"type": "str"},
        "priority": {"type": "int"},
        "priority_slope": {"type": "float"},
        "min_available": {"type": "raw"},
        "requeue": {
            "type": "dict",
            "options": {
                "time": {"type": "str"},
                "growth": {"type": "str", "choices": list(GROWTHS)},
                "max_time": {"type": "str"},
                "limit": {"type": "int"},
                "pause": {"type": "str"},
            },
        },
        "max_run_time": {"type": "str"},
        "completion": {
            "type": "list",
            "elements": "dict",
            "options": {
                "item": {"type": "int"},
                "type": {"type": "str"},
                "contains": {"type": "str"},
                "status": {"type": "str", "choices": ["True", "False", "Unknown"]},
                "jmespath": {"type": "str"},
                "pods": {"type": "bool"},
            },
        },
        "exit_codes": {
            "type": "dict",
            "options": {
                "terminal": {"type": "list", "elements": "int"},
                "retryable": {"type": "list", "elements": "int"},
            },
        },
        "ttl": {"type": "str"},
        "labels": {"type": "dict"},
        "elastic": {
            "type": "dict",
            "options": {"range": {"type": "dict", "options": _range_spec()}, "size": {"type": "int"}},
        },
    }


def _range_spec() -> Spec:
    """The sizes that an elastic gang may have."""
    return {
        "min": {"type": "int"},
        "max": {"type": "int"},
        "step": {"type": "int"},
        "sizes": {"type": "list", "elements": "int"},
        "resource": {"type": "str"},
        "podset": {"type": "str"},
        "axis": {"type": "str", "choices": list(AXES)},
        "global_batch": {
            "type": "dict",
            "options": {
                "value": {"type": "int", "required": True},
                "per_device_env": {"type": "str", "required": True},
                "accumulation_env": {"type": "str"},
            },
        },
    }


def _options(params: Params, check_mode: bool) -> GangOptions:
    """The options behind validated ones."""
    return GangOptions(
        state=params["state"],
        gangs=tuple(
            GangAsk(gang_source(entry, params["namespace"]), _settings(entry, params)) for entry in gang_entries(params)
        ),
        store=params["store"],
        replace=params["replace"],
        rerun=params["rerun"],
        wait=params["wait"],
        wait_for=params["wait_for"],
        wait_timeout=parse_duration(params["wait_timeout"], "wait_timeout"),
        wait_sleep=parse_duration(params["wait_sleep"], "wait_sleep"),
        dispatch=params["dispatch"],
        lease=lease_from_params(params),
        check_mode=check_mode,
    )


def _settings(entry: Params, shared: Params) -> GangSettings:
    """The settings of one gang; those beside the list hold where its entry says nothing."""
    settings = {name: shared[name] if entry[name] is None else entry[name] for name in _settings_spec()}
    requeue, completion, exit_codes = settings["requeue"], settings["completion"], settings["exit_codes"]
    return GangSettings(
        queue=settings["queue"],
        priority=settings["priority"],
        priority_slope=settings["priority_slope"],
        min_available=_least(settings["min_available"]),
        requeue=None if requeue is None else without_none(requeue),
        max_run_time=settings["max_run_time"],
        completion=None if completion is None else tuple(without_none(rule) for rule in completion),
        exit_codes=None if exit_codes is None else without_none(exit_codes),
        ttl=settings["ttl"],
        labels=None if settings["labels"] is None else without_none(settings["labels"]),
        elastic=_given(settings["elastic"]),
    )


def _given(value: t.Any) -> t.Any:
    """What was given of nested options."""
    return {key: _given(part) for key, part in without_none(value).items()} if isinstance(value, dict) else value


def _least(value: t.Any) -> t.Any:
    """The option min_available; a raw option that was templated arrives as text."""
    if isinstance(value, dict):
        return without_none(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else value


_GANGS, _RULES = one_or_many_gangs(_settings_spec(), ("definition", "src", "name"))
FACE = Face(
    name="gang",
    spec={
        **auth_argument_spec(),
        **_GANGS,
        "state": {"type": "str", "default": "present", "choices": ["present", "absent", "suspended"]},
        "store": {"type": "str", "default": "auto", "choices": ["auto", "configmap", "appwrapper"]},
        "replace": {"type": "bool", "default": False},
        "rerun": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "wait_for": {"type": "str", "choices": ["queued", "dispatched", "running", "complete"]},
        "wait_timeout": {"type": "str", "default": "120"},
        "wait_sleep": {"type": "str", "default": "1"},
        "dispatch": {"type": "bool", "default": False},
        **lease_argument_spec(),
    },
    rules=_RULES,
    options=_options,
    work=lambda options, call: run_gangs(lambda: connect(call.auth), options, call.report).as_result(diff=call.diff),
    libraries=check_libraries,
)
