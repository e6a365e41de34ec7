# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of inspection."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.build_settings import (
    SCRIPT_FILE,
    build_settings,
    build_settings_argument_spec,
    build_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import (
    InspectionCell,
    InspectionOptions,
    RunOptions,
    ScriptSource,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import Engine as BuildEngine
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.amun import from_amun
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.matrix import Cell, matrix_from_data, merged
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_security import SECCOMP_PROFILES
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

# Where the script comes from; at most one of them.
_SOURCES = ("script", "src", "url")
# Where a stack that is built on this machine goes when nobody says otherwise.
_LOCAL_REPOSITORY = "localhost/inspection"
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
_CELL_OPTIONS = (
    *("image", "stack", "specification", "script", "url", "checksum", "identifier", "labels", "build", "run"),
    *("timeout", "start_timeout"),
    *_RUN,
)
# What Ansible's validation raises for values it does not expect.
_STUMBLES = (AttributeError, OverflowError, RecursionError, TypeError, ValueError)


def _hardware_spec() -> Spec:
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
                "hardware": {"type": "dict", "options": _hardware_spec()},
                "wait_for_nodes": {"type": "bool"},
            },
        },
        "engine": {"type": "str", "default": "job", "choices": ["job", "local"]},
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


def _options(params: Params, check_mode: bool) -> InspectionOptions:
    """The options behind validated ones; a matrix has those of each of its cells."""
    if params["matrix"] is None:
        return _one(params, check_mode)
    if params["state"] != "present":
        raise BadInput("read", "matrix", "it cannot be removed or cancelled as one; give inspection_id or identifier")
    matrix = matrix_from_data(params["matrix"])
    return InspectionOptions(
        namespace=params["namespace"],
        engine=params["engine"],
        fail_when_failed=params["fail_when_failed"],
        cells=tuple(
            InspectionCell(cell.name, dict(cell.axes), _one(_cell_params(params, cell), check_mode))
            for cell in matrix.cells
        ),
        fail_fast=matrix.fail_fast,
        check_mode=check_mode,
    )


def _cell_params(params: Params, cell: Cell) -> Params:
    """The validated options of one cell of a matrix: those of the task with its own put in."""
    where = f"matrix: {cell.name}"
    for name in cell.options:
        if name not in _CELL_OPTIONS:
            raise BadInput("read", where, f"{name} cannot be an option of a cell; known are {', '.join(_CELL_OPTIONS)}")
    # What Ansible put into the place of options that nobody gave would count as given.
    given = {name: _given(value) for name, value in params.items() if value is not None and name != "matrix"}
    whole = {name: params[name] for name in ("env", "stack", "specification") if params[name] is not None}
    try:
        checked = ArgumentSpecValidator(FACE.spec, **FACE.rules).validate(merged({**given, **whole}, cell.options))
    except _STUMBLES as error:
        raise BadInput("read", where, f"its options cannot be read: {error}") from error
    if checked.error_messages:
        raise BadInput("read", where, "; ".join(checked.error_messages))
    found: Params = checked.validated_parameters
    return found


def _one(params: Params, check_mode: bool) -> InspectionOptions:
    """The options of one inspection; a request in Amun's words is translated."""
    amun = {} if params["specification"] is None else from_amun(params["specification"], params["checksum"])
    stack, settings, engine = _build(params, amun)
    return InspectionOptions(
        state=params["state"],
        namespace=params["namespace"],
        inspection_id=params["inspection_id"],
        identifier=params["identifier"] or amun.get("identifier"),
        labels={str(key): str(value) for key, value in (params["labels"] or {}).items()},
        image=params["image"],
        stack=stack,
        build=settings,
        build_engine=engine,
        source=_source(params, amun),
        run=_run(params, amun),
        wait_for_nodes=bool((params["run"] or {}).get("wait_for_nodes")),
        engine=params["engine"],
        timeout=parse_duration(params["timeout"], "timeout"),
        start_timeout=parse_duration(params["start_timeout"], "start_timeout"),
        ttl=None if params["ttl"] is None else parse_duration(params["ttl"], "ttl"),
        wait=params["wait"],
        force=params["force"],
        fail_when_failed=params["fail_when_failed"],
        collector=params["collector"],
        build_script=params["build_script"],
        ignored=tuple(amun.get("ignored") or ()),
        check_mode=check_mode,
    )


def _source(params: Params, amun: Params) -> ScriptSource | None:
    """Where the script comes from; None without any."""
    if amun:
        script = amun.get("script")
        if script is None:
            return None
        return ScriptSource(script=script.get("content"), url=script.get("url"), checksum=script.get("checksum"))
    if all(params[name] is None for name in _SOURCES):
        return None
    return ScriptSource(params["script"], params["src"], params["url"], params["checksum"])


def _run(params: Params, amun: Params) -> RunOptions:
    """The options of the run; what an Amun request says holds where the task itself says nothing."""
    said = _said(params, amun)
    return RunOptions(
        interpreter=said.get("interpreter"),
        args=tuple(said.get("args") or ()),
        env=said.get("env"),
        files=tuple(said.get("files") or ()),
        workdir=said.get("workdir"),
        requests=said.get("requests"),
        hardware=said.get("hardware"),
        repetitions=said.get("repetitions"),
        parallelism=said.get("parallelism"),
        warmup=said.get("warmup"),
        allowed_failures=said.get("allowed_failures"),
        output_bytes=said.get("output_bytes"),
        service_account=said.get("service_account"),
        pull_secrets=tuple(said.get("pull_secrets") or ()),
        tolerations=tuple(said.get("tolerations") or ()),
        priority_class=said.get("priority_class"),
        runtime_class=said.get("runtime_class"),
        security=said.get("security"),
        volumes=tuple(said.get("volumes") or ()),
        home=said.get("home"),
    )


def _said(params: Params, amun: Params) -> Data:
    """What task and Amun request together say of the run."""
    said = {key: amun[key] for key in _FROM_AMUN if key in amun}
    run = amun.get("run") or {}
    own = {name: _given(params[name]) for name in _RUN if params[name] is not None}
    if "env" in amun:
        own["env"] = {**amun["env"], **own.get("env", {})}
    if "files" in amun:
        given = own.get("files", [])
        paths = [file["path"] for file in given]
        own["files"] = [*(file for file in amun["files"] if file["path"] not in paths), *given]
    return {**said, **run, **own, **_given(params["run"] or {})}


def _build(params: Params, amun: Params) -> tuple[BuildSpec | None, BuildSettings, BuildEngine]:
    """What is built, how, and by which engine: podman when everything happens on this machine."""
    stack = amun.get("stack") or params["stack"]
    if stack is None and params["build"] is not None:
        raise BadInput("read", "build", "there is nothing to build without a stack")
    options = params["build"] or {}
    defaults = {name: option.get("default") for name, option in build_settings_argument_spec().items()}
    own = {**defaults, **(amun.get("build") or {}), **{key: item for key, item in options.items() if item is not None}}
    local = params["engine"] == "local"
    engine: BuildEngine = "podman" if local and own["engine"] == "auto" else own["engine"]
    settings = build_settings(own, engine)
    if stack is None:
        return None, settings, engine
    repository = options.get("repository") or (_LOCAL_REPOSITORY if engine == "podman" else None)
    if repository is None:
        raise BadInput(
            "read", "build: repository", "it is missing; an image that is built in the cluster is pushed there"
        )
    return build_spec(stack, repository, options.get("tag")), settings, engine


def _given(value: t.Any) -> t.Any:
    """Options somebody set, without the empty places Ansible adds to dictionaries with a specification."""
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_given(item) for item in value]
    return value


FACE = Face(
    name="inspection",
    spec={
        **auth_argument_spec(),
        "state": {"type": "str", "default": "present", "choices": ["present", "absent", "cancelled"]},
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
            "options": {"repository": {"type": "str"}, "tag": {"type": "str"}, **build_settings_argument_spec()},
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
    },
    rules={
        "mutually_exclusive": [
            ("image", "stack", "specification"),
            _SOURCES,
            *(("specification", name) for name in _SOURCES),
        ],
        "required_by": {"url": ("checksum",)},
        "required_if": [
            ("state", "present", ("image", "stack", "specification", "matrix"), True),
            ("state", "cancelled", ("inspection_id", "identifier"), True),
        ],
    },
    options=_options,
    work=lambda options, call: run_inspection(lambda: connect(call.auth), options, call.report),
    libraries=check_libraries,
    files={"collector": "roles/inspection/files/collector.sh", "build_script": SCRIPT_FILE},
)
