# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of component."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import ComponentOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.run import run_component
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration


def _options(params: Params, check_mode: bool) -> ComponentOptions:
    """The options behind validated ones."""
    return ComponentOptions(
        name=params["name"],
        state=params["state"],
        definition=params["definition"],
        src=params["src"],
        prune=params["prune"],
        wait=params["wait"],
        wait_timeout=parse_duration(params["wait_timeout"], "wait_timeout"),
        check_mode=check_mode,
    )


def _work(options: ComponentOptions, call: Call) -> Result:
    """One task on one component."""
    return run_component(lambda: connect(call.auth), options, call.report).as_result(diff=call.diff)


FACE = Face(
    name="component",
    spec={
        **auth_argument_spec(),
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "definition": {"type": "raw", "aliases": ["inline", "objects"]},
        "src": {"type": "path"},
        "prune": {"type": "bool", "default": True},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "str", "default": "120"},
    },
    rules={"mutually_exclusive": [("definition", "src")]},
    options=_options,
    work=_work,
    libraries=check_libraries,
)
