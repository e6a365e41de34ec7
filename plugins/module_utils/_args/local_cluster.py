# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of local_cluster and local_cluster_info, and their way into typed values."""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible.module_utils.basic import env_fallback
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_argument_spec, auth_from_params
from ansible_collections.muster.kube.plugins.module_utils._model.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster import (
    ClusterRequest,
    ClusterSpec,
    NodeGroup,
    Taint,
)

CACHE_VARIABLE = "MUSTER_CACHE"
CACHE_DEFAULT = "~/.cache/muster-kube"
Spec = dict[str, dict[str, t.Any]]
Params = t.Mapping[str, t.Any]


def cache_argument_spec() -> Spec:
    """Where programs and clusters are kept; shared by both modules."""
    return {"cache": {"type": "path", "fallback": (env_fallback, [CACHE_VARIABLE])}}


def taint_argument_spec() -> Spec:
    """One taint."""
    return {
        "key": {"type": "str", "required": True, "no_log": False},
        "value": {"type": "str", "default": ""},
        "effect": {"type": "str", "required": True, "choices": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
    }


def node_argument_spec() -> Spec:
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
        "taints": {"type": "list", "elements": "dict", "default": [], "options": taint_argument_spec()},
    }


def cluster_argument_spec() -> Spec:
    """All options of local_cluster."""
    return {
        "name": {"type": "str", "default": "muster"},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "provider": {"type": "str", "default": "binaries", "choices": ["binaries", "existing"]},
        "nodes": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": node_argument_spec(),
            "required_if": [("real", False, ("cpu", "memory"))],
        },
        "registry": {"type": "bool", "default": False},
        "operators": {"type": "list", "elements": "str", "default": []},
        "feature_gates": {"type": "dict", "default": {}},
        "runtime_config": {"type": "dict", "default": {}},
        "component_flags": {"type": "dict", "default": {}},
        "files": {"type": "path"},
        "wait_timeout": {"type": "str", "default": "5m"},
        **cache_argument_spec(),
        **auth_argument_spec(),
    }


def info_argument_spec() -> Spec:
    """All options of local_cluster_info."""
    return {"name": {"type": "str"}, **cache_argument_spec()}


def cache_path(params: Params) -> pathlib.Path:
    """The cache directory: the option, else the environment (both through the spec), else below the home directory."""
    return pathlib.Path(os.path.expanduser(params["cache"] or CACHE_DEFAULT)).absolute()


def request_from_params(params: Params, check_mode: bool) -> ClusterRequest:
    """The request behind validated options."""
    return ClusterRequest(
        spec=ClusterSpec(
            name=params["name"],
            nodes=tuple(map(_node_group, params["nodes"])),
            operators=tuple(dict.fromkeys(params["operators"])),
            feature_gates=_switches(params["feature_gates"], "feature_gates"),
            runtime_config=_switches(params["runtime_config"], "runtime_config"),
            registry=params["registry"],
            component_flags=_flags(params["component_flags"]),
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
