# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of fit_info."""

from __future__ import annotations

import functools

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result
from ansible_collections.muster.kube.plugins.module_utils._face.gang_source import (
    gang_entries,
    gang_source,
    one_or_many_gangs,
)
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import answer_fit, rough_gangs
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import FitOptions, read_gang
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.runtimes import Runtimes
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.verdicts import QuotaCompletion, one_queue
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect


def _options(params: Params, _check_mode: bool) -> FitOptions:
    """The options behind validated ones."""
    return FitOptions(
        gangs=tuple(gang_source(entry, params["namespace"]) for entry in gang_entries(params)),
        cumulative=params["cumulative"],
        advice=params["advice"],
        queue=params["queue"],
        lease=lease_from_params(params),
    )


def _work(options: FitOptions, call: Call) -> Result:
    """One question; its mistakes are reported before anything is read."""
    connection = functools.partial(connect, call.auth)
    runtimes = Runtimes(connection)
    requests = [read_gang(source, index, runtimes) for index, source in enumerate(options.gangs)]
    rough_gangs(requests)
    client, cumulative, advice = connection(), options.cumulative, options.advice
    naming = one_queue(options.queue)
    complete = QuotaCompletion(client, options.lease, naming=naming, cumulative=cumulative, advice=advice)
    answer = answer_fit(client, requests, cumulative=cumulative, advice=advice, complete=complete)
    return {**answer.as_result(), "quota_as_of": complete.as_of}


_GANGS, _RULES = one_or_many_gangs({}, ("definition", "src", "podsets"))
FACE = Face(
    name="fit_info",
    spec={
        **auth_argument_spec(),
        **_GANGS,
        "cumulative": {"type": "bool", "default": True},
        "advice": {"type": "bool", "default": True},
        "queue": {"type": "str"},
        **lease_argument_spec(),
    },
    rules=_RULES,
    options=_options,
    work=_work,
)
