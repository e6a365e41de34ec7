# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of inspection_info."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params
from ansible_collections.muster.kube.plugins.module_utils._face.labels import label_selector, labels_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionInfoOptions,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

# Where an inspection that has a record can stand.
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Cancelled")


def _options(params: Params, _check_mode: bool) -> InspectionInfoOptions:
    """The options behind validated ones."""
    if params["log_bytes"] < 0:
        raise BadInput("read", "log_bytes", f"a number that is not negative is needed, not {params['log_bytes']}")
    if params["limit"] is not None and params["limit"] < 1:
        raise BadInput("read", "limit", f"a number from 1 is needed, not {params['limit']}")
    return InspectionInfoOptions(
        namespace=params["namespace"],
        inspection_id=params["inspection_id"],
        identifier=params["identifier"],
        labels=label_selector(params),
        phases=frozenset(params["phase"] or ()),
        limit=params["limit"],
        logs=params["logs"],
        log_bytes=params["log_bytes"],
    )


FACE = Face(
    name="inspection_info",
    spec={
        **auth_argument_spec(),
        "namespace": {"type": "str"},
        "inspection_id": {"type": "str", "aliases": ["name"]},
        "identifier": {"type": "str"},
        **labels_argument_spec(),
        "phase": {"type": "list", "elements": "str", "choices": list(_PHASES)},
        "limit": {"type": "int"},
        "logs": {"type": "bool", "default": False},
        "log_bytes": {"type": "int", "default": 65536},
    },
    options=_options,
    work=lambda options, call: answer_inspections(connect(call.auth), options),
)
