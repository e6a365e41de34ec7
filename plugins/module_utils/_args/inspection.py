# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of inspection and inspection_info, and their way into plain values."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._args.image_build import (
    build_settings,
    build_settings_spec,
    build_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.amun import from_amun
from ansible_collections.muster.kube.plugins.module_utils._model.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.matrix import Cell, matrix_from_data, merged
from ansible_collections.muster.kube.plugins.module_utils._model.run_security import SECCOMP_PROFILES

Spec = dict[str, dict[str, t.Any]]
Params = t.Mapping[str, t.Any]
Values = dict[str, t.Any]

STATES = ("present", "absent", "cancelled")
# Where an inspection that has a record can stand.
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Cancelled")
ENGINES = ("job", "local")
# Where the script comes from; at most one of them.
SOURCES = ("script", "src", "url")
# Where a stack that is built on this machine goes when nobody says otherwise.
LOCAL_REPOSITORY = "localhost/inspection"
_DURATIONS = ("timeout", "start_timeout", "ttl")
# Options of the run that an Amun request may hold, too.
_FROM_AMUN = ("interpreter", "repetitions", "parallelism", "allowed_failures", "security", "workdir", "home")
# What describes the run itself, and is handed on as it is.
_RUN = (
    *("interpreter", "args", "env", "files", "workdir"),
    *("repetitions", "parallelism", "warmup", "allowed_failures", "output_bytes"),
    *("service_account", "pull_secrets", "tolerations", "priority_class", "runtime_class", "security"),
    "volumes",
)
# What the cells of a matrix may differ in. Files are looked for in the options of the task only, so src is not here.
CELL_OPTIONS = (
    *("image", "stack", "specification", "script", "url", "checksum", "identifier", "labels", "build", "run"),
    *("timeout", "start_timeout"),
    *_RUN,
)
# What Ansible's validation raises for values it does not expect.
_STUMBLES = (AttributeError, OverflowError, RecursionError, TypeError, ValueError)


def hardware_argument_spec() -> Spec:
    """The hardware a pod asks for; the values are read strictly by the model."""
    return {
        "arch": {"type": "str"},
        "cpu": {
            "type": "dict",
            "options": {
                "vendor": {"type": "str"},
                "family": {"type": "int"},
                "model": {"type": "int"},
                "flags": {"type": "list", "elements": "str"},
                "level": {"type": "str"},
            },
        },
        "gpu": {
            "type": "dict",
            "options": {
                "vendor": {"type": "str"},
                "product": {"type": "list", "elements": "str"},
                "count": {"type": "int"},
                "memory": {"type": "str"},
                "resource": {"type": "str"},
            },
        },
        "node_selector": {"type": "dict"},
    }


def _script_spec() -> Spec:
    """What is run."""
    return {
        "script": {"type": "str"},
        "src": {"type": "path"},
        "url": {"type": "str"},
        "checksum": {"type": "str"},
        "interpreter": {"type": "str"},
        "args": {"type": "list", "elements": "str"},
        "env": {"type": "dict"},
        "files": {
            "type": "list",
            "elements": "dict",
            "options": {
                "path": {"type": "str", "required": True},
                "content": {"type": "str"},
                "content_base64": {"type": "str"},
                "mode": {"type": "str"},
            },
            "mutually_exclusive": [("content", "content_base64")],
            "required_one_of": [("content", "content_base64")],
        },
        "workdir": {"type": "str"},
    }


def _run_spec() -> Spec:
    """How it is run, and where."""
    return {
        "repetitions": {"type": "int"},
        "parallelism": {"type": "int"},
        "warmup": {"type": "int"},
        "allowed_failures": {"type": "int"},
        "run": {
            "type": "dict",
            "options": {
                "requests": {"type": "dict"},
                "hardware": {"type": "dict", "options": hardware_argument_spec()},
                "wait_for_nodes": {"type": "bool"},
            },
        },
        "engine": {"type": "str", "default": "job", "choices": list(ENGINES)},
        "timeout": {"type": "str", "default": "1h"},
        "start_timeout": {"type": "str", "default": "30m"},
        "output_bytes": {"type": "int"},
        "service_account": {"type": "str"},
        "pull_secrets": {"type": "list", "elements": "str", "no_log": False},
        "tolerations": {"type": "list", "elements": "dict"},
        "priority_class": {"type": "str"},
        "runtime_class": {"type": "str"},
        "security": {"type": "dict", "options": _security_spec()},
        "volumes": {"type": "list", "elements": "dict", "options": _volume_spec()},
    }


def _volume_spec() -> Spec:
    """A volume of the pods; which options go together is known to the model."""
    return {
        "path": {"type": "str", "required": True},
        "persistent_volume_claim": {"type": "str"},
        "config_map": {"type": "str"},
        "secret": {"type": "str", "no_log": False},
        "empty_dir": {"type": "dict", "options": {"size": {"type": "str", "required": True}}},
        "key": {"type": "str", "no_log": False},
        "sub_path": {"type": "str"},
        "read_only": {"type": "bool"},
    }


def _security_spec() -> Spec:
    """The rights of the script's container."""
    return {
        "run_as_user": {"type": "int"},
        "run_as_group": {"type": "int"},
        "run_as_non_root": {"type": "bool"},
        "capabilities": {"type": "list", "elements": "str"},
        "allow_privilege_escalation": {"type": "bool"},
        "seccomp_profile": {"type": "str", "choices": list(SECCOMP_PROFILES)},
        "privileged": {"type": "bool"},
    }


def inspection_argument_spec() -> Spec:
    """All options of inspection."""
    return {
        **auth_argument_spec(),
        "state": {"type": "str", "default": "present", "choices": list(STATES)},
        "namespace": {"type": "str", "default": "default"},
        "inspection_id": {"type": "str", "aliases": ["name"]},
        "identifier": {"type": "str"},
        "labels": {"type": "dict"},
        "image": {"type": "str"},
        "stack": {"type": "dict"},
        "specification": {"type": "dict"},
        **_script_spec(),
        **_run_spec(),
        "build": {
            "type": "dict",
            "options": {"repository": {"type": "str"}, "tag": {"type": "str"}, **build_settings_spec()},
        },
        "matrix": {
            "type": "dict",
            "options": {
                "axes": {"type": "dict", "required": True},
                "exclude": {"type": "list", "elements": "dict"},
                "include": {"type": "list", "elements": "dict"},
                "fail_fast": {"type": "bool", "default": False},
            },
        },
        "wait": {"type": "bool", "default": True},
        "force": {"type": "bool", "default": False},
        "ttl": {"type": "str"},
        "fail_when_failed": {"type": "bool", "default": True},
        "collector": {"type": "str"},
        "build_script": {"type": "str"},
    }


INSPECTION_RULES: dict[str, t.Any] = {
    "mutually_exclusive": [
        ("image", "stack", "specification"),
        SOURCES,
        *(("specification", name) for name in SOURCES),
    ],
    "required_by": {"url": ("checksum",)},
    "required_if": [
        ("state", "present", ("image", "stack", "specification", "matrix"), True),
        ("state", "cancelled", ("inspection_id", "identifier"), True),
    ],
}


def inspection_info_argument_spec() -> Spec:
    """All options of inspection_info."""
    return {
        **auth_argument_spec(),
        "namespace": {"type": "str"},
        "inspection_id": {"type": "str", "aliases": ["name"]},
        "identifier": {"type": "str"},
        "label_selectors": {"type": "list", "elements": "str", "aliases": ["label_selector"]},
        "phase": {"type": "list", "elements": "str", "choices": list(PHASES)},
        "limit": {"type": "int"},
        "logs": {"type": "bool", "default": False},
        "log_bytes": {"type": "int", "default": 65536},
    }


def inspection_terms(params: Params, check_mode: bool, generator_version: str) -> Values:
    """The values of the flow's terms behind validated options; a matrix has those of each of its cells."""
    if params["matrix"] is None:
        return _terms(params, check_mode, generator_version)
    if params["state"] != "present":
        raise BadInput("read", "matrix", "it cannot be removed or cancelled as one; give inspection_id or identifier")
    matrix = matrix_from_data(params["matrix"])
    whole = ("namespace", "engine", "fail_when_failed")
    return {
        **{name: params[name] for name in whole},
        "cells": tuple(
            (cell.name, dict(cell.axes), _terms(_cell_params(params, cell), check_mode, generator_version))
            for cell in matrix.cells
        ),
        "fail_fast": matrix.fail_fast,
        "check_mode": check_mode,
    }


def _cell_params(params: Params, cell: Cell) -> Params:
    """The validated options of one cell of a matrix: those of the task with its own put in."""
    where = f"matrix: {cell.name}"
    for name in cell.options:
        if name not in CELL_OPTIONS:
            raise BadInput("read", where, f"{name} cannot be an option of a cell; known are {', '.join(CELL_OPTIONS)}")
    # What Ansible put into the place of options that nobody gave would count as given.
    given = {name: _given(value) for name, value in params.items() if value is not None and name != "matrix"}
    whole = {name: params[name] for name in ("env", "stack", "specification") if params[name] is not None}
    try:
        checked = ArgumentSpecValidator(inspection_argument_spec(), **INSPECTION_RULES).validate(
            merged({**given, **whole}, cell.options)
        )
    except _STUMBLES as error:
        raise BadInput("read", where, f"its options cannot be read: {error}") from error
    if checked.error_messages:
        raise BadInput("read", where, "; ".join(checked.error_messages))
    found: Params = checked.validated_parameters
    return found


def _terms(params: Params, check_mode: bool, generator_version: str) -> Values:
    """The values of one inspection; a request in Amun's words is translated."""
    seconds = {name: None if params[name] is None else parse_duration(params[name], name) for name in _DURATIONS}
    amun = {} if params["specification"] is None else from_amun(params["specification"], params["checksum"])
    wanted, settings, engine = _build(params, amun, generator_version)
    return {
        "state": params["state"],
        "namespace": params["namespace"],
        "inspection_id": params["inspection_id"],
        "identifier": params["identifier"] or amun.get("identifier"),
        "labels": {str(key): str(value) for key, value in (params["labels"] or {}).items()},
        "image": params["image"],
        "stack": wanted,
        "build": settings,
        "build_engine": engine,
        "sources": _sources(params, amun),
        "run": _run(params, amun),
        "wait_for_nodes": bool((params["run"] or {}).get("wait_for_nodes")),
        "engine": params["engine"],
        **seconds,
        "wait": params["wait"],
        "force": params["force"],
        "fail_when_failed": params["fail_when_failed"],
        "collector": params["collector"],
        "build_script": params["build_script"],
        "ignored": tuple(amun.get("ignored") or ()),
        "check_mode": check_mode,
    }


def _sources(params: Params, amun: Params) -> Values:
    """Where the script comes from."""
    if not amun:
        return {name: params[name] for name in (*SOURCES, "checksum") if params[name] is not None}
    script = amun.get("script") or {}
    return {"script" if key == "content" else key: value for key, value in script.items()}


def _run(params: Params, amun: Params) -> Values:
    """The options of the run; what an Amun request says holds where the task itself says nothing."""
    said = {key: amun[key] for key in _FROM_AMUN if key in amun}
    # What is requested is the limit, too, in both languages.
    run = {key: value for key, value in (amun.get("run") or {}).items() if key != "limits"}
    own = {name: _given(params[name]) for name in _RUN if params[name] is not None}
    if "env" in amun:
        own["env"] = {**amun["env"], **own.get("env", {})}
    if "files" in amun:
        given = own.get("files", [])
        paths = [file["path"] for file in given]
        own["files"] = [*(file for file in amun["files"] if file["path"] not in paths), *given]
    options = {key: value for key, value in (params["run"] or {}).items() if key != "wait_for_nodes"}
    return {**said, **run, **own, **_given(options)}


def _build(params: Params, amun: Params, generator_version: str) -> tuple[BuildSpec | None, BuildSettings, str]:
    """What is built, how, and by which engine: podman when everything happens on this machine."""
    stack = amun.get("stack") or params["stack"]
    if stack is None and params["build"] is not None:
        raise BadInput("read", "build", "there is nothing to build without a stack")
    options = params["build"] or {}
    defaults = {name: option.get("default") for name, option in build_settings_spec().items()}
    own = {**defaults, **(amun.get("build") or {}), **{key: item for key, item in options.items() if item is not None}}
    local = params["engine"] == "local"
    engine = "podman" if local and own["engine"] == "auto" else own["engine"]
    settings = build_settings(own, engine)
    if stack is None:
        return None, settings, engine
    repository = options.get("repository") or (LOCAL_REPOSITORY if engine == "podman" else None)
    if repository is None:
        raise BadInput(
            "read", "build: repository", "it is missing; an image that is built in the cluster is pushed there"
        )
    return build_spec(stack, repository, options.get("tag"), generator_version), settings, engine


def inspection_info_terms(params: Params) -> Values:
    """The values of the question behind validated options of inspection_info."""
    if params["log_bytes"] < 0:
        raise BadInput("read", "log_bytes", f"a number that is not negative is needed, not {params['log_bytes']}")
    if params["limit"] is not None and params["limit"] < 1:
        raise BadInput("read", "limit", f"a number from 1 is needed, not {params['limit']}")
    return {
        "namespace": params["namespace"],
        "inspection_id": params["inspection_id"],
        "identifier": params["identifier"],
        "labels": ",".join(params["label_selectors"] or ()) or None,
        "phases": frozenset(params["phase"] or ()),
        "limit": params["limit"],
        "logs": params["logs"],
        "log_bytes": params["log_bytes"],
    }


def _given(value: t.Any) -> t.Any:
    """Options somebody set, without the empty places Ansible adds to dictionaries with a specification."""
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_given(item) for item in value]
    return value
