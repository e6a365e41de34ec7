# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of gang and gang_info, and their way into plain values."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._args.dispatch import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._args.fit import PODSET_OPTIONS
from ansible_collections.muster.kube.plugins.module_utils._model.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.spec import GROWTHS
from ansible_collections.muster.kube.plugins.module_utils._model.state import PHASES

Spec = dict[str, dict[str, t.Any]]
Params = t.Mapping[str, t.Any]
Values = dict[str, t.Any]

STATES = ("present", "absent", "suspended")
STORES = ("auto", "configmap", "appwrapper")
WAITS = ("queued", "dispatched", "running", "complete")
# What may stand in an entry of gangs only, and not beside the list.
_ONE_GANG = ("definition", "src", "podsets", "name")


def _settings_spec() -> Spec:
    """How a gang is queued and run: what a list of gangs may share."""
    return {
        "namespace": {"type": "str"},
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


def _objects_spec() -> Spec:
    """What a gang is made of."""
    return {
        "name": {"type": "str"},
        "definition": {"type": "raw", "aliases": ["inline", "objects"]},
        "src": {"type": "path"},
        "podsets": {"type": "list", "elements": "dict", "options": PODSET_OPTIONS},
    }


def gang_argument_spec() -> Spec:
    """All options of gang: one gang at the top level, or a list of them."""
    one = {**_objects_spec(), **_settings_spec()}
    return {
        **auth_argument_spec(),
        **one,
        "state": {"type": "str", "default": "present", "choices": list(STATES)},
        "gangs": {
            "type": "list",
            "elements": "dict",
            "options": one,
            "mutually_exclusive": [("definition", "src")],
            "required_one_of": [("definition", "src", "name")],
        },
        "store": {"type": "str", "default": "auto", "choices": list(STORES)},
        "replace": {"type": "bool", "default": False},
        "rerun": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "wait_for": {"type": "str", "choices": list(WAITS)},
        "wait_timeout": {"type": "str", "default": "120"},
        "wait_sleep": {"type": "str", "default": "1"},
        "dispatch": {"type": "bool", "default": False},
        "lease": {"type": "dict", "options": lease_argument_spec()},
    }


GANG_RULES: dict[str, t.Any] = {
    "mutually_exclusive": [("definition", "src"), *(("gangs", name) for name in _ONE_GANG)],
    "required_one_of": [("gangs", "definition", "src", "name")],
}


def gang_info_argument_spec() -> Spec:
    """All options of gang_info."""
    return {
        **auth_argument_spec(),
        "name": {"type": "str"},
        "namespace": {"type": "str"},
        "queue": {"type": "str"},
        "state": {"type": "list", "elements": "str", "choices": list(PHASES)},
        "label_selectors": {"type": "list", "elements": "str", "aliases": ["label_selector"]},
        "log_lines": {"type": "int", "default": 20},
        "capacity": {"type": "bool", "default": False},
    }


def gang_terms(params: Params, check_mode: bool) -> Values:
    """The values of the flow's terms behind validated options."""
    return {
        "state": params["state"],
        "gangs": tuple(gang_values(params)),
        "store": params["store"],
        "replace": params["replace"],
        "rerun": params["rerun"],
        "wait": params["wait"],
        "wait_for": params["wait_for"],
        "wait_timeout": parse_duration(params["wait_timeout"], "wait_timeout"),
        "wait_sleep": parse_duration(params["wait_sleep"], "wait_sleep"),
        "dispatch": params["dispatch"],
        "lease": lease_from_params(params["lease"]),
        "check_mode": check_mode,
    }


def gang_values(params: Params) -> t.Iterator[Values]:
    """Each gang's own options, unset ones left out; settings beside the list hold for entries that say nothing."""
    shared = _given(params, tuple(_settings_spec()))
    entries = params["gangs"] if params["gangs"] is not None else [params]
    for entry in entries:
        own = _given(entry, (*_objects_spec(), *_settings_spec()))
        yield {**shared, **own}


def gang_info_terms(params: Params) -> Values:
    """The values of the question behind validated options of gang_info."""
    if params["log_lines"] < 0:
        raise BadInput("read", "log_lines", f"a number that is not negative is needed, not {params['log_lines']}")
    return {
        "name": params["name"],
        "namespace": params["namespace"],
        "queue": params["queue"],
        "phases": frozenset(params["state"] or ()),
        "labels": ",".join(params["label_selectors"] or ()) or None,
        "log_lines": params["log_lines"],
        "capacity": params["capacity"],
    }


def _given(entry: Params, names: t.Sequence[str]) -> Values:
    """The options somebody set, without the empty places Ansible adds to dictionaries."""
    found = {name: _without_none(entry[name]) for name in names if entry.get(name) is not None}
    least = found.get("min_available")
    if isinstance(least, str) and least.isdecimal():
        # A raw option that was templated arrives as text.
        found["min_available"] = int(least)
    return found


def _without_none(value: t.Any) -> t.Any:
    """The option's value; only the first levels, which have a specification, are tidied."""
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [
            {key: part for key, part in item.items() if part is not None} if isinstance(item, dict) else item
            for item in value
        ]
    return value
