# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rights of the container in which a script runs: as few as a script needs, more only on request."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, without_none

SECURITY_KEYS = (
    *("run_as_user", "run_as_group", "run_as_non_root", "capabilities"),
    *("allow_privilege_escalation", "seccomp_profile", "privileged"),
)
SECCOMP_PROFILES = ("RuntimeDefault", "Unconfined")
_NUMBERS = ("run_as_user", "run_as_group")
_FLAGS = ("run_as_non_root", "allow_privilege_escalation", "privileged")


def read_security(value: t.Any, where: str) -> Data:
    """What a task asks for, read strictly; only what was given is in it, so that its hash stays when options grow."""
    fields = Fields({} if value is None else value, where)
    fields.only(SECURITY_KEYS)
    found: Data = {key: fields.whole(key, 0, INT32) for key in _NUMBERS if fields.get(key) is not None}
    found |= {key: fields.flag(key) for key in _FLAGS if fields.get(key) is not None}
    names = fields.sequence("capabilities")
    if any(not isinstance(name, str) or not name.isidentifier() or name.startswith("CAP_") for name in names):
        raise fields.fail("capabilities", "names such as NET_BIND_SERVICE are needed, without CAP_")
    if names:
        found["capabilities"] = sorted({name.upper() for name in names})
    if fields.get("seccomp_profile") is not None:
        found["seccomp_profile"] = fields.choice("seccomp_profile", SECCOMP_PROFILES, "RuntimeDefault")
    if found.get("privileged") and len(found.keys() - {*_NUMBERS, "privileged"}):
        raise fields.fail("privileged", "it includes all other rights; name them or it, not both")
    if found.get("run_as_non_root") and found.get("run_as_user") == 0:
        raise BadInput("read", f"{where}: run_as_user", "0 is root")
    return found


def security_context(asked: Mapping[str, t.Any]) -> Data:
    """A container's securityContext: without privileges, capabilities and unusual system calls unless asked for.

    It is what the Pod Security level restricted wants, except that an image may run as root. A user other than root is
    vouched for.
    """
    user = {"runAsUser": asked.get("run_as_user"), "runAsGroup": asked.get("run_as_group")}
    context: Data = without_none(user)
    if asked.get("run_as_non_root") or asked.get("run_as_user"):
        context["runAsNonRoot"] = True
    if asked.get("privileged"):
        return {**context, "privileged": True}
    capabilities: Data = {"drop": ["ALL"]}
    if asked.get("capabilities"):
        capabilities["add"] = list(asked["capabilities"])
    return {
        **context,
        "allowPrivilegeEscalation": bool(asked.get("allow_privilege_escalation", False)),
        "capabilities": capabilities,
        "seccompProfile": {"type": asked.get("seccomp_profile", "RuntimeDefault")},
    }
