# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of gang and elastic_job: how gangs are queued and run, and what a task does with all of them."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.reading import AXES
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import ON_TIMEOUT, TIMINGS
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GROWTHS
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import without_none


def settings_argument_spec() -> Spec:
    """How a gang is queued and run, whether it is elastic or not: what a list of gangs may share."""
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
    }


def range_argument_spec() -> Spec:
    """The sizes that an elastic gang may have."""
    return {
        "min": {"type": "int"},
        "max": {"type": "int"},
        "step": {"type": "int"},
        "sizes": {"type": "list", "elements": "int"},
        "resource": {"type": "str"},
        "podset": {"type": "str"},
        "axis": {"type": "str", "choices": list(AXES)},
    }


def batch_argument_spec() -> Spec:
    """The global batch that stays the same at all sizes."""
    return {
        "value": {"type": "int", "required": True},
        "per_device_env": {"type": "str", "required": True},
        "accumulation_env": {"type": "str"},
    }


def resize_argument_spec() -> Spec:
    """When an elastic gang that runs may get another size."""
    return {
        "timing": {"type": "str", "choices": list(TIMINGS)},
        "checkpoint_timeout": {"type": "str"},
        "on_timeout": {"type": "str", "choices": list(ON_TIMEOUT)},
        "cooldown": {"type": "str"},
        "restart_cost": {"type": "str"},
        "deadline": {"type": "str"},
        "profile": {"type": "dict"},
    }


def task_argument_spec() -> Spec:
    """What a task does with all of its gangs."""
    return {
        "state": {"type": "str", "default": "present", "choices": ["present", "absent", "suspended"]},
        "replace": {"type": "bool", "default": False},
        "rerun": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "wait_for": {"type": "str", "choices": ["queued", "dispatched", "running", "complete"]},
        "wait_timeout": {"type": "str", "default": "120"},
        "wait_sleep": {"type": "str", "default": "1"},
        "dispatch": {"type": "bool", "default": False},
        **lease_argument_spec(),
    }


def task_options(params: Params, gangs: tuple[GangAsk, ...], check_mode: bool, **more: t.Any) -> GangOptions:
    """The options of a task about these gangs."""
    return GangOptions(
        state=params["state"],
        gangs=gangs,
        replace=params["replace"],
        rerun=params["rerun"],
        wait=params["wait"],
        wait_for=params["wait_for"],
        wait_timeout=parse_duration(params["wait_timeout"], "wait_timeout"),
        wait_sleep=parse_duration(params["wait_sleep"], "wait_sleep"),
        dispatch=params["dispatch"],
        lease=lease_from_params(params),
        check_mode=check_mode,
        **more,
    )


def shared_settings(names: t.Iterable[str], entry: Params, shared: Params) -> dict[str, t.Any]:
    """Options of one gang; those beside the list hold where its entry says nothing."""
    return {name: shared[name] if entry[name] is None else entry[name] for name in names}


def gang_settings(entry: Params, shared: Params, elastic: Mapping[str, t.Any] | None) -> GangSettings:
    """The settings of one gang, which is elastic if its terms are given."""
    settings = shared_settings(settings_argument_spec(), entry, shared)
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
        elastic=given(_with_named_sizes(elastic)),
    )


def _with_named_sizes(elastic: Mapping[str, t.Any] | None) -> Mapping[str, t.Any] | None:
    """The terms with a profile whose sizes are texts, as keys are in records; YAML makes numbers of them."""
    profile = elastic.get("profile") if elastic is not None else None
    if elastic is None or profile is None:
        return elastic
    return {**elastic, "profile": {str(size): speed for size, speed in profile.items()}}


def given(value: t.Any) -> t.Any:
    """What was given of nested options."""
    return {key: given(part) for key, part in without_none(value).items()} if isinstance(value, Mapping) else value


def _least(value: t.Any) -> t.Any:
    """The option min_available; a raw option that was templated arrives as text."""
    if isinstance(value, dict):
        return without_none(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else value
