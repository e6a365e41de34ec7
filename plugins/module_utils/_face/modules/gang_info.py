# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of gang_info."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params
from ansible_collections.muster.kube.plugins.module_utils._face.labels import label_selector, labels_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions, answer_gangs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def _options(params: Params, _check_mode: bool) -> GangInfoOptions:
    """The options behind validated ones."""
    if params["log_lines"] < 0:
        raise BadInput("read", "log_lines", f"a number that is not negative is needed, not {params['log_lines']}")
    return GangInfoOptions(
        name=params["name"],
        namespace=params["namespace"],
        queue=params["queue"],
        phases=frozenset(params["state"] or ()),
        labels=label_selector(params),
        log_lines=params["log_lines"],
        capacity=params["capacity"],
        lease=lease_from_params(params),
    )


FACE = Face(
    name="gang_info",
    spec={
        **auth_argument_spec(),
        "name": {"type": "str"},
        "namespace": {"type": "str"},
        "queue": {"type": "str"},
        "state": {"type": "list", "elements": "str", "choices": list(PHASES)},
        **labels_argument_spec(),
        "log_lines": {"type": "int", "default": 20},
        "capacity": {"type": "bool", "default": False},
        **lease_argument_spec(),
    },
    options=_options,
    work=lambda options, call: answer_gangs(connect(call.auth), options),
)
