# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""inspection inside the Ansible process, so that it can be watched, with the programs that lie on the controller."""

from __future__ import annotations

import collections.abc
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_from_params, secrets_of_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._args.inspection import (
    INSPECTION_RULES,
    inspection_argument_spec,
    inspection_terms,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.terms import InspectTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._policy.dockerfile import GENERATOR_VERSION
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction

FILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "inspection" / "files"
PROGRAMS = {"collector": "collector.sh", "build_script": "build.sh"}


class ActionModule(InProcessAction):
    """The controller's side of inspection."""

    def argument_spec(self) -> dict[str, t.Any]:
        """The module's options."""
        return inspection_argument_spec()

    def argument_rules(self) -> dict[str, t.Any]:
        """What may be given together."""
        return INSPECTION_RULES

    def check_libraries(self) -> None:
        """The packages the work needs."""
        check_libraries()

    def secrets(self, params: dict[str, t.Any]) -> collections.abc.Iterable[str]:
        """Secrets inside a kubeconfig given as dict."""
        return secrets_of_kubeconfig(params["kubeconfig"])

    def default_args(self, args: dict[str, t.Any]) -> dict[str, t.Any]:
        """The collection's own programs, unless the task brings others or runs nothing."""
        if args.get("state") in ("absent", "cancelled"):
            return args
        own = {
            name: (FILES / file).read_text(encoding="utf-8") for name, file in PROGRAMS.items() if not args.get(name)
        }
        return {**args, **own}

    def work(self, params: dict[str, t.Any], report: collections.abc.Callable[[str], None]) -> dict[str, t.Any]:
        """One call, as in the module."""
        terms = InspectTerms(**inspection_terms(params, bool(self._task.check_mode), GENERATOR_VERSION))
        return run_inspection(lambda: connect(auth_from_params(params)), terms, report)
