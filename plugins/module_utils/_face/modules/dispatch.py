# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of dispatch."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._face.namespaces import listed_namespaces
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions, Hold, Policy

_UNLIMITED = -1


def _options(params: Params, _check_mode: bool) -> DispatchOptions:
    """The options behind validated ones."""
    starts = params["max_starts"]
    if starts is not None and starts < 0:
        raise BadInput("read", "max_starts", f"a number that is not negative is needed, not {starts}")
    return DispatchOptions(
        policy=params["policy"],
        reserve_after=parse_duration(params["reserve_after"], "reserve_after"),
        hold=params["hold"],
        lease=lease_from_params(params),
        lease_wait=parse_duration(params["lease_timeout"], "lease_timeout"),
        namespaces=listed_namespaces(params["namespaces"]),
        max_starts=starts,
        bind_timeout=parse_duration(params["bind_timeout"], "bind_timeout"),
        start_timeout=parse_duration(params["start_timeout"], "start_timeout"),
        duration=None if params["duration"] is None else parse_duration(params["duration"], "duration"),
        decision_log=params["decision_log"],
        adopt=params["adopt"],
        keep_finished=_most(params["keep_finished"]),
        keep_finished_for=_longest(params["keep_finished_for"]),
        accrue_seconds=_interval(params["accrue_seconds"]),
    )


def _most(number: int) -> int | None:
    """How many finished gangs are kept; None for no limit."""
    if number < _UNLIMITED:
        raise BadInput("read", "keep_finished", f"a number is needed, or -1 for no limit, not {number}")
    return None if number == _UNLIMITED else number


def _longest(text: str) -> float | None:
    """How long finished gangs are kept; None for no limit."""
    return None if text.strip() == str(_UNLIMITED) else parse_duration(text, "keep_finished_for")


def _interval(text: str) -> float:
    """How often usage is written."""
    seconds = parse_duration(text, "accrue_seconds")
    if seconds < 1:
        raise BadInput("read", "accrue_seconds", f"at least one second is needed, not {text}")
    return seconds


def _work(options: DispatchOptions, call: Call) -> Result:
    """One run, or what one would do; renewals of the Lease have a connection of their own."""
    if call.check_mode:
        return preview_dispatch(connect(call.auth), options).as_result()
    return run_dispatch(connect(call.auth), connect(call.auth), options, call.report).as_result()


FACE = Face(
    name="dispatch",
    spec={
        **auth_argument_spec(),
        "duration": {"type": "str"},
        "policy": {"type": "str", "default": "reserve", "choices": list(t.get_args(Policy))},
        "reserve_after": {"type": "str", "default": "1h"},
        "hold": {"type": "str", "default": "soft", "choices": list(t.get_args(Hold))},
        **lease_argument_spec(),
        "namespaces": {"type": "list", "elements": "str"},
        "max_starts": {"type": "int"},
        "bind_timeout": {"type": "str", "default": "60"},
        "start_timeout": {"type": "str", "default": "300"},
        "decision_log": {"type": "path"},
        "lease_timeout": {"type": "str", "default": "0", "aliases": ["wait_timeout"]},
        "adopt": {"type": "bool", "default": False},
        "keep_finished": {"type": "int", "default": 1000},
        "keep_finished_for": {"type": "str", "default": "7d"},
        "accrue_seconds": {"type": "str", "default": "300"},
    },
    options=_options,
    work=_work,
    libraries=check_libraries,
)
