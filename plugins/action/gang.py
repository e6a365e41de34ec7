# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gang inside the Ansible process, so that waiting and starting can be watched."""

from __future__ import annotations

import collections.abc
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_from_params, secrets_of_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._args.gang import GANG_RULES, gang_argument_spec, gang_terms
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import run_gangs
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.terms import GangTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction


class ActionModule(InProcessAction):
    """The controller's side of gang."""

    def argument_spec(self) -> dict[str, t.Any]:
        """The module's options."""
        return gang_argument_spec()

    def argument_rules(self) -> dict[str, t.Any]:
        """What may be given together."""
        return GANG_RULES

    def check_libraries(self) -> None:
        """The packages the work needs."""
        check_libraries()

    def secrets(self, params: dict[str, t.Any]) -> collections.abc.Iterable[str]:
        """Secrets inside a kubeconfig given as dict."""
        return secrets_of_kubeconfig(params["kubeconfig"])

    def work(self, params: dict[str, t.Any], report: collections.abc.Callable[[str], None]) -> dict[str, t.Any]:
        """One call, as in the module."""
        terms = GangTerms(**gang_terms(params, bool(self._task.check_mode)))
        answer = run_gangs(lambda: connect(auth_from_params(params)), terms, report)
        return answer.as_result(diff=bool(self._task.diff))
