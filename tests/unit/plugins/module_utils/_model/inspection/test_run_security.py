# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rights of a script's container: few by default, and what is asked for read strictly."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_security import (
    read_security,
    security_context,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, SAFE),
        ({"run_as_non_root": True}, {**SAFE, "runAsNonRoot": True}),
        ({"run_as_user": 1042}, {**SAFE, "runAsUser": 1042, "runAsNonRoot": True}),
        ({"run_as_user": 0, "run_as_group": 0}, {**SAFE, "runAsUser": 0, "runAsGroup": 0}),
        (
            {"capabilities": ["net_raw", "NET_ADMIN"]},
            {**SAFE, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}},
        ),
        (
            {"allow_privilege_escalation": True, "seccomp_profile": "Unconfined"},
            {**SAFE, "allowPrivilegeEscalation": True, "seccompProfile": {"type": "Unconfined"}},
        ),
        ({"privileged": True, "run_as_user": 0}, {"privileged": True, "runAsUser": 0}),
    ],
)
def test_rights_follow_what_is_asked_for(asked, expected):
    assert security_context(read_security(asked, "run: security")) == expected


def test_what_nobody_asked_for_is_not_part_of_the_identity():
    assert read_security(None, "x") == read_security({"run_as_user": None, "capabilities": []}, "x") == {}


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"run_as": 1}, "unknown key"),
        ({"run_as_user": "me"}, "run_as_user"),
        ({"run_as_user": -1}, "run_as_user"),
        ({"run_as_user": 0, "run_as_non_root": True}, "0 is root"),
        ({"capabilities": ["CAP_NET_RAW"]}, "without CAP_"),
        ({"capabilities": [1]}, "capabilities"),
        ({"seccomp_profile": "none"}, "seccomp_profile"),
        ({"privileged": True, "capabilities": ["NET_RAW"]}, "all other rights"),
        ([], "security"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked, complaint):
    with pytest.raises(BadInput, match=complaint):
        read_security(asked, "run: security")
