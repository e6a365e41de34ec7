# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of elastic_balance."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._face.namespaces import listed_namespaces
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.balance import run_balance
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import without_none
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import POLICY_NAMES, SETTING_KEYS


def _options(params: Params, check_mode: bool) -> BalanceOptions:
    """The options behind validated ones."""
    return BalanceOptions(
        lease=lease_from_params(params),
        namespaces=listed_namespaces(params["namespaces"]),
        settings=without_none({key: params[key] for key in SETTING_KEYS}),
        wait=params["wait"],
        wait_timeout=parse_duration(params["wait_timeout"], "wait_timeout"),
        check_mode=check_mode,
    )


def _work(options: BalanceOptions, call: Call) -> Result:
    """One decision; renewals of the Lease have a connection of their own."""
    return run_balance(lambda: connect(call.auth), options, call.report).as_result(diff=call.diff)


FACE = Face(
    name="elastic_balance",
    spec={
        **auth_argument_spec(),
        "namespaces": {"type": "list", "elements": "str"},
        "policy": {"type": "str", "choices": list(POLICY_NAMES)},
        "worth": {"type": "float"},
        "near_end": {"type": "float"},
        "most_resizes": {"type": "int"},
        "patience": {"type": "str"},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "str", "default": "10m"},
        **lease_argument_spec(),
    },
    options=_options,
    work=_work,
    libraries=check_libraries,
)
