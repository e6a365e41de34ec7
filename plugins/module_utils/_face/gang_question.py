# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options by which gang_info and elastic_job_info choose gangs."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._face.labels import label_selector, labels_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def question_argument_spec() -> Spec:
    """Which gangs are asked about, and how much is told of their logs."""
    return {
        "name": {"type": "str"},
        "namespace": {"type": "str"},
        "queue": {"type": "str"},
        "state": {"type": "list", "elements": "str", "choices": list(PHASES)},
        **labels_argument_spec(),
        "log_lines": {"type": "int", "default": 20},
        **lease_argument_spec(),
    }


def gang_question(params: Params, **more: t.Any) -> GangInfoOptions:
    """The question behind validated options."""
    if params["log_lines"] < 0:
        raise BadInput("read", "log_lines", f"a number that is not negative is needed, not {params['log_lines']}")
    return GangInfoOptions(
        name=params["name"],
        namespace=params["namespace"],
        queue=params["queue"],
        phases=frozenset(params["state"] or ()),
        labels=label_selector(params),
        log_lines=params["log_lines"],
        lease=lease_from_params(params),
        **more,
    )
