# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of checkpoint."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.checkpoint import (
    CheckpointOptions,
    run_checkpoint,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import DEFAULT_NAMESPACE
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect


def _options(params: Params, check_mode: bool) -> CheckpointOptions:
    """The options behind validated ones."""
    return CheckpointOptions(
        name=params["name"],
        namespace=params["namespace"],
        step=params["step"],
        total=params["total_steps"],
        size=params["size"],
        saved=params["saved"],
        completed=params["completed"],
        time=params["time"],
        check_mode=check_mode,
    )


def _work(options: CheckpointOptions, call: Call) -> Result:
    """One report."""
    return run_checkpoint(connect(call.auth), options).as_result(diff=call.diff)


FACE = Face(
    name="checkpoint",
    spec={
        **auth_argument_spec(),
        "name": {"type": "str", "required": True},
        "namespace": {"type": "str", "default": DEFAULT_NAMESPACE},
        "step": {"type": "int"},
        "total_steps": {"type": "int"},
        "size": {"type": "int"},
        "saved": {"type": "bool", "default": False},
        "completed": {"type": "bool", "default": False},
        "time": {"type": "str"},
    },
    options=_options,
    work=_work,
    libraries=check_libraries,
)
