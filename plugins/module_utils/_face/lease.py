# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option of everything that takes part in the dispatcher's Lease."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

_USUAL = LeaseOptions()
# A renewal needs time for an answer; below this a busy server would end every time in office.
_SHORTEST_LEASE = 1.0


def lease_argument_spec() -> Spec:
    """Which Lease decides who may start gangs."""
    options: Spec = {
        "namespace": {"type": "str", "default": _USUAL.namespace},
        "name": {"type": "str", "default": _USUAL.name},
        "seconds": {"type": "float", "default": _USUAL.seconds},
    }
    return {"lease": {"type": "dict", "options": options}}


def lease_from_params(params: Params) -> LeaseOptions:
    """The Lease behind validated options; the usual one by default."""
    lease = params["lease"]
    if lease is None:
        return _USUAL
    if lease["seconds"] < _SHORTEST_LEASE:
        cause = f"at least {_SHORTEST_LEASE:g} second is needed, not {lease['seconds']:g}"
        raise BadInput("use", "lease.seconds", cause)
    return LeaseOptions(lease["namespace"], lease["name"], lease["seconds"])
