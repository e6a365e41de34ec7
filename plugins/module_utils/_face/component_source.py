# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that describe a component, alone or as one of several."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import ProgramPaths
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import (
    SOURCES,
    Component,
    read_component,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

# What only a component with a record can have.
RECORDED_KEYS = (
    *("version", "namespace", "resources", "depends_on", "condition", "nodes", "smoke", "row"),
    *("chart", "repository", "chart_version", "digest", "release", "values", "secret_values"),
)
_TEXTS = {"type": "list", "elements": "str"}


def component_argument_spec() -> Spec:
    """What a component is made of and how it is judged."""
    return {
        "source": {"type": "str", "choices": list(SOURCES)},
        "definition": {"type": "raw", "aliases": ["inline", "objects"]},
        "src": {"type": "path"},
        "chart": {"type": "str"},
        "repository": {"type": "str"},
        "chart_version": {"type": "str"},
        "digest": {"type": "str"},
        "release": {"type": "str"},
        "values": {"type": "dict"},
        "secret_values": {"type": "dict", "no_log": True},
        "version": {"type": "str"},
        "namespace": {"type": "str"},
        "resources": {"type": "raw"},
        "depends_on": {"type": "list", "elements": "str"},
        "condition": {
            "type": "dict",
            "options": {
                "api_version": {"type": "str", "required": True},
                "kind": {"type": "str", "required": True},
                "name": {"type": "str", "required": True},
                "namespace": {"type": "str"},
                "type": {"type": "str"},
                "status": {"type": "str", "default": "True"},
                "path": {"type": "str"},
                "value": {"type": "str"},
            },
            "required_one_of": [("type", "path")],
            "mutually_exclusive": [("type", "path")],
            "required_together": [("path", "value")],
        },
        "nodes": {
            "type": "dict",
            "options": {
                "labels": {"type": "list", "elements": "str"},
                "resources": {"type": "list", "elements": "str"},
            },
        },
        "smoke": {
            "type": "dict",
            "options": {"definition": {"type": "raw", "required": True}, "condition": {"type": "str"}},
        },
        "row": {
            "type": "dict",
            "options": {
                "title": {"type": "str"},
                "proof": {"type": "str"},
                "features": _TEXTS,
                "api_versions": _TEXTS,
                "kubernetes": {"type": "str"},
                "reinvoke_beside": _TEXTS,
                "expects": {"type": "dict", "options": dict.fromkeys(("definitions", "workloads", "webhooks"), _TEXTS)},
                "removal": {"type": "dict", "options": dict.fromkeys(("first", "leaves"), _TEXTS)},
            },
        },
    }


def programs_argument_spec() -> Spec:
    """Where the programs are that render and install."""
    return {"helm_path": {"type": "path"}, "kubectl_path": {"type": "path"}}


def program_paths(params: Params) -> ProgramPaths:
    """The same, behind validated options."""
    return ProgramPaths(params["helm_path"], params["kubectl_path"])


def components_from_params(params: Params, *, needs_source: bool) -> tuple[Component, ...]:
    """The components behind validated options; an empty list is most likely a mistake."""
    given = [params] if params["components"] is None else params["components"]
    if not given:
        raise BadInput("read", "components", "the list is empty")
    return tuple(read_component(item, needs_source=needs_source) for item in given)
