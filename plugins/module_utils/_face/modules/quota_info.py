# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of quota_info."""

from __future__ import annotations

import functools

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params
from ansible_collections.muster.kube.plugins.module_utils._face.gang_source import gang_source, source_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import DEFAULT_NAMESPACE
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions, QuotaQuestion
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect


def _options(params: Params, _check_mode: bool) -> QuotaInfoOptions:
    """The options behind validated ones."""
    lease = lease_from_params(params)
    gang = params["gang"]
    source = gang_source({**params, "name": None}, None) if any(params[key] is not None for key in _SOURCES) else None
    question = QuotaQuestion(
        gang=None if gang is None else (gang["namespace"], gang["name"]),
        source=source,
        namespace=params["namespace"],
        user=params["user"],
        queue=params["queue"],
    )
    return QuotaInfoOptions(lease.namespace, params["tree"], lease.name, question)


_GANG = {
    "type": "dict",
    "options": {"name": {"type": "str", "required": True}, "namespace": {"type": "str", "default": DEFAULT_NAMESPACE}},
}
_SOURCES = ("definition", "src", "podsets")
FACE = Face(
    name="quota_info",
    spec={
        **auth_argument_spec(),
        "tree": {"type": "str"},
        "gang": _GANG,
        **source_argument_spec(),
        "user": {"type": "str"},
        "queue": {"type": "str"},
        **lease_argument_spec(),
    },
    rules={
        "mutually_exclusive": [
            ("definition", "src"),
            *(("gang", name) for name in (*_SOURCES, "namespace", "user", "queue")),
            *(("user", name) for name in _SOURCES),
        ]
    },
    options=_options,
    work=lambda options, call: answer_quota(functools.partial(connect, call.auth), options),
)
