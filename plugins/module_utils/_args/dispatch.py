# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of dispatch, and of everything that takes part in its Lease, and their way into plain values."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import LeaseTerms
from ansible_collections.muster.kube.plugins.module_utils._model.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput

Spec = dict[str, dict[str, t.Any]]
Params = t.Mapping[str, t.Any]

POLICIES = ("strict", "best_effort", "reserve")
HOLDS = ("soft", "hard")
_USUAL = LeaseTerms()
# A renewal needs time for an answer; below this a busy server would end every time in office.
_SHORTEST_LEASE = 1.0
_UNLIMITED = -1


def lease_argument_spec() -> Spec:
    """Which Lease decides who may start gangs."""
    return {
        "namespace": {"type": "str", "default": _USUAL.namespace},
        "name": {"type": "str", "default": _USUAL.name},
        "seconds": {"type": "float", "default": _USUAL.seconds},
    }


def lease_from_params(lease: Params | None) -> LeaseTerms:
    """The Lease behind validated options; the usual one when nothing is said."""
    if lease is None:
        return _USUAL
    if lease["seconds"] < _SHORTEST_LEASE:
        cause = f"at least {_SHORTEST_LEASE:g} second is needed, not {lease['seconds']:g}"
        raise BadInput("use", "lease.seconds", cause)
    return LeaseTerms(lease["namespace"], lease["name"], lease["seconds"])


def dispatch_argument_spec() -> Spec:
    """All options of dispatch."""
    return {
        **auth_argument_spec(),
        "duration": {"type": "str"},
        "policy": {"type": "str", "default": "reserve", "choices": list(POLICIES)},
        "reserve_after": {"type": "str", "default": "1h"},
        "hold": {"type": "str", "default": "soft", "choices": list(HOLDS)},
        "lease": {"type": "dict", "options": lease_argument_spec()},
        "namespaces": {"type": "list", "elements": "str"},
        "max_starts": {"type": "int"},
        "bind_timeout": {"type": "str", "default": "60"},
        "start_timeout": {"type": "str", "default": "300"},
        "decision_log": {"type": "path"},
        "lease_timeout": {"type": "str", "default": "0", "aliases": ["wait_timeout"]},
        "adopt": {"type": "bool", "default": False},
        "keep_finished": {"type": "int", "default": 1000},
        "keep_finished_for": {"type": "str", "default": "7d"},
    }


def dispatch_terms(params: Params) -> dict[str, t.Any]:
    """The values of the dispatcher's terms behind validated options."""
    starts = params["max_starts"]
    if starts is not None and starts < 0:
        raise BadInput("read", "max_starts", f"a number that is not negative is needed, not {starts}")
    return {
        "policy": params["policy"],
        "reserve_after": parse_duration(params["reserve_after"], "reserve_after"),
        "hold": params["hold"],
        "lease": lease_from_params(params["lease"]),
        "lease_wait": parse_duration(params["lease_timeout"], "lease_timeout"),
        "namespaces": _namespaces(params["namespaces"]),
        "max_starts": starts,
        "bind_timeout": parse_duration(params["bind_timeout"], "bind_timeout"),
        "start_timeout": parse_duration(params["start_timeout"], "start_timeout"),
        "duration": None if params["duration"] is None else parse_duration(params["duration"], "duration"),
        "decision_log": params["decision_log"],
        "adopt": params["adopt"],
        "keep_finished": _most(params["keep_finished"]),
        "keep_finished_for": _longest(params["keep_finished_for"]),
    }


def _most(number: int) -> int | None:
    """How many finished gangs are kept; None for no limit."""
    if number < _UNLIMITED:
        raise BadInput("read", "keep_finished", f"a number is needed, or -1 for no limit, not {number}")
    return None if number == _UNLIMITED else number


def _longest(text: str) -> float | None:
    """How long finished gangs are kept; None for no limit."""
    return None if text.strip() == str(_UNLIMITED) else parse_duration(text, "keep_finished_for")


def _namespaces(names: t.Sequence[str] | None) -> tuple[str, ...] | None:
    """The namespaces named, each once; an empty list is most likely a mistake and would mean all of them to some."""
    if names is None:
        return None
    if not names:
        raise BadInput("read", "namespaces", "the list is empty; leave the option out to mean all namespaces")
    return tuple(dict.fromkeys(names))
