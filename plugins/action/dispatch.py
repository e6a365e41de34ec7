# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""dispatch inside the Ansible process, so that every decision is shown when it is made."""

from __future__ import annotations

import collections.abc
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_from_params, secrets_of_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._args.dispatch import dispatch_argument_spec, dispatch_terms
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction


class ActionModule(InProcessAction):
    """The controller's side of dispatch."""

    def argument_spec(self) -> dict[str, t.Any]:
        """The module's options."""
        return dispatch_argument_spec()

    def check_libraries(self) -> None:
        """The packages the work needs."""
        check_libraries()

    def secrets(self, params: dict[str, t.Any]) -> collections.abc.Iterable[str]:
        """Secrets inside a kubeconfig given as dict."""
        return secrets_of_kubeconfig(params["kubeconfig"])

    def work(self, params: dict[str, t.Any], report: collections.abc.Callable[[str], None]) -> dict[str, t.Any]:
        """One call, as in the module; renewals of the Lease have a connection of their own."""
        terms = DispatchTerms(**dispatch_terms(params))
        auth = auth_from_params(params)
        if self._task.check_mode:
            return preview_dispatch(connect(auth), terms).as_result()
        return run_dispatch(connect(auth), connect(auth), terms, report).as_result()
