# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of fit_info, shared by the module and whatever else asks the same question."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_argument_spec

PODSET_OPTIONS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "count": {"type": "int", "default": 1},
    "requests": {"type": "dict"},
    "limits": {"type": "dict"},
    "spec": {"type": "dict"},
    "labels": {"type": "dict"},
}

GANG_OPTIONS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "namespace": {"type": "str"},
    "definition": {"type": "raw", "aliases": ["inline", "objects"]},
    "src": {"type": "path"},
    "podsets": {"type": "list", "elements": "dict", "options": PODSET_OPTIONS},
}


def fit_argument_spec() -> dict[str, dict[str, t.Any]]:
    """One gang at the top level, or a list of them."""
    return {
        **auth_argument_spec(),
        **GANG_OPTIONS,
        "gangs": {
            "type": "list",
            "elements": "dict",
            "options": GANG_OPTIONS,
            "mutually_exclusive": [("definition", "src")],
            "required_one_of": [("definition", "src", "podsets")],
        },
        "cumulative": {"type": "bool", "default": True},
        "advice": {"type": "bool", "default": True},
    }


FIT_RULES: dict[str, t.Any] = {
    "mutually_exclusive": [
        ("definition", "src"),
        ("gangs", "definition"),
        ("gangs", "src"),
        ("gangs", "podsets"),
        ("gangs", "name"),
    ],
    "required_one_of": [("gangs", "definition", "src", "podsets")],
}
