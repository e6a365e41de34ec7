# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of local_cluster."""

from __future__ import annotations

import pathlib
import typing as t

from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec, auth_from_params
from ansible_collections.muster.kube.plugins.module_utils._face.cache import cache_argument_spec, cache_path
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import check_libraries, run
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def _taint_spec() -> Spec:
    """One taint."""
    return {
        "key": {"type": "str", "required": True, "no_log": False},
        "value": {"type": "str", "default": ""},
        "effect": {"type": "str", "required": True, "choices": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
    }


def _node_spec() -> Spec:
    """One group of nodes."""
    return {
        "name": {"type": "str", "default": "node"},
        "count": {"type": "int", "default": 1},
        "real": {"type": "bool", "default": False},
        "cpu": {"type": "str"},
        "memory": {"type": "str"},
        "pods": {"type": "int", "default": 110},
        "extended": {"type": "dict", "default": {}},
        "labels": {"type": "dict", "default": {}},
        "taints": {"type": "list", "elements": "dict", "default": [], "options": _taint_spec()},
    }


def _options(params: Params, check_mode: bool) -> ClusterOptions:
    """The options behind validated ones."""
    return ClusterOptions(
        spec=ClusterSpec(
            name=params["name"],
            nodes=tuple(map(_node_group, params["nodes"])),
            operators=tuple(dict.fromkeys(params["operators"])),
            feature_gates=_switches(params["feature_gates"], "feature_gates"),
            runtime_config=_switches(params["runtime_config"], "runtime_config"),
            registry=params["registry"],
            component_flags=_flags(params["component_flags"]),
            audit_log=params["audit_log"],
            programs=tuple(dict.fromkeys(params["programs"])),
        ),
        cache=cache_path(params),
        files=pathlib.Path(params["files"]) if params["files"] else None,
        state=params["state"],
        provider=params["provider"],
        wait_timeout=parse_duration(params["wait_timeout"], "wait_timeout"),
        check_mode=check_mode,
        auth=auth_from_params(params),
    )


def _node_group(group: Params) -> NodeGroup:
    """One validated group as a value."""
    return NodeGroup(
        name=group["name"],
        count=group["count"],
        cpu=group["cpu"] or "",
        memory=group["memory"] or "",
        pods=group["pods"],
        extended=_texts(group["extended"]),
        labels=_texts(group["labels"]),
        taints=tuple(Taint(taint["key"], taint["effect"], taint["value"]) for taint in group["taints"]),
        real=group["real"],
    )


def _texts(values: Params) -> tuple[tuple[str, str], ...]:
    """A mapping with its values as text: YAML reads 8 as a number and yes as true."""
    words = {True: "true", False: "false"}
    return tuple(
        (str(key), words[value] if isinstance(value, bool) else to_text(value)) for key, value in values.items()
    )


def _flags(components: Params) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Flags by component, with their values as text."""
    for name, flags in components.items():
        if not isinstance(flags, t.Mapping):
            raise BadInput("use", f"component_flags.{name}", f"{flags!r} is not a mapping of flags to values")
    return tuple((str(name), _texts(flags)) for name, flags in components.items())


def _switches(values: Params, option: str) -> tuple[tuple[str, bool], ...]:
    """A mapping of switches; anything Ansible takes for true or false will do."""
    switches = []
    for name, value in values.items():
        try:
            switches.append((str(name), bool(boolean(value))))
        except TypeError as error:
            raise BadInput("use", f"{option}.{name}", f"{value!r} is neither true nor false") from error
    return tuple(switches)


FACE = Face(
    name="local_cluster",
    spec={
        "name": {"type": "str", "default": "muster"},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "provider": {"type": "str", "default": "binaries", "choices": ["binaries", "existing"]},
        "nodes": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": _node_spec(),
            "required_if": [("real", False, ("cpu", "memory"))],
        },
        "registry": {"type": "bool", "default": False},
        "operators": {"type": "list", "elements": "str", "default": []},
        "programs": {"type": "list", "elements": "str", "default": []},
        "feature_gates": {"type": "dict", "default": {}},
        "runtime_config": {"type": "dict", "default": {}},
        "component_flags": {"type": "dict", "default": {}},
        "audit_log": {"type": "bool", "default": False},
        "files": {"type": "path"},
        "wait_timeout": {"type": "str", "default": "5m"},
        **cache_argument_spec(),
        **auth_argument_spec(),
    },
    options=_options,
    work=lambda options, call: run(options, call.report),
    libraries=check_libraries,
    files={"files": "roles/local_cluster/files"},
)
