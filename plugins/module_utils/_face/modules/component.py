# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of component."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.component_source import (
    RECORDED_KEYS,
    component_argument_spec,
    components_from_params,
    program_paths,
    programs_argument_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import ComponentOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.provision import ProvisionOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import InstalledPrograms
from ansible_collections.muster.kube.plugins.module_utils._flow.component.task import ComponentTask, run_task
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import Component
from ansible_collections.muster.kube.plugins.module_utils._model.component.ladder import STEPS
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import RECORDS_NAMESPACE


def _options(params: Params, check_mode: bool) -> ComponentTask:
    """The options behind validated ones."""
    timeout = parse_duration(params["wait_timeout"], "wait_timeout")
    is_plain = params["source"] is None and params["components"] is None
    present = params["state"] == "present"
    recorded = ProvisionOptions(
        components=(Component(params["name"]),) if is_plain else components_from_params(params, needs_source=present),
        state=params["state"],
        prune=params["prune"],
        wait_for=params["wait_for"] if params["wait"] else "source",
        wait_timeout=timeout,
        with_resources=params["with_resources"],
        remove_definitions=params["remove_definitions"],
        record_namespace=params["record_namespace"],
        check_mode=check_mode,
        single=params["components"] is None,
    )
    programs = program_paths(params)
    if not is_plain:
        return ComponentTask(recorded, None, programs)
    plain = ComponentOptions(
        name=params["name"],
        state=params["state"],
        definition=params["definition"],
        src=params["src"],
        prune=params["prune"],
        wait=params["wait"],
        wait_timeout=timeout,
        check_mode=check_mode,
    )
    return ComponentTask(recorded, plain, programs)


def _work(task: ComponentTask, call: Call) -> Result:
    """One task on one component or several."""
    programs = InstalledPrograms(lambda: connect(call.auth).kubeconfig(), task.programs)
    return run_task(lambda: connect(call.auth), task, call.report, programs, diff=call.diff)


_ONE = component_argument_spec()
FACE = Face(
    name="component",
    spec={
        **auth_argument_spec(),
        **programs_argument_spec(),
        "name": {"type": "str"},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        **_ONE,
        "components": {
            "type": "list",
            "elements": "dict",
            "options": {"name": {"type": "str", "required": True}, **_ONE},
        },
        "prune": {"type": "bool", "default": True},
        "with_resources": {"type": "bool", "default": False},
        "remove_definitions": {"type": "bool", "default": False},
        "record_namespace": {"type": "str", "default": RECORDS_NAMESPACE},
        "wait": {"type": "bool", "default": True},
        "wait_for": {"type": "str", "default": "smoke", "choices": list(STEPS)},
        "wait_timeout": {"type": "str", "default": "120"},
    },
    rules={
        "mutually_exclusive": [
            ("definition", "src"),
            *(("components", key) for key in ("name", "source", "definition", "src", *RECORDED_KEYS)),
        ],
        "required_one_of": [("name", "components")],
        "required_by": dict.fromkeys(RECORDED_KEYS, ("source",)),
    },
    options=_options,
    work=_work,
    libraries=check_libraries,
)
