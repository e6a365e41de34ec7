# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""local_cluster inside the Ansible process, so that building and starting can be watched."""

from __future__ import annotations

import collections.abc
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import secrets_of_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._args.local_cluster import (
    cluster_argument_spec,
    request_from_params,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import check_libraries, run
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction

FILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "local_cluster" / "files"


class ActionModule(InProcessAction):
    """The controller's side of local_cluster."""

    def argument_spec(self) -> dict[str, t.Any]:
        """The module's options."""
        return cluster_argument_spec()

    def check_libraries(self) -> None:
        """The packages the work needs."""
        check_libraries()

    def secrets(self, params: dict[str, t.Any]) -> collections.abc.Iterable[str]:
        """Secrets inside a kubeconfig given as dict."""
        return secrets_of_kubeconfig(params["kubeconfig"])

    def default_args(self, args: dict[str, t.Any]) -> dict[str, t.Any]:
        """The collection's own catalogue, unless the task names another."""
        return args if args.get("files") else {**args, "files": str(FILES)}

    def work(self, params: dict[str, t.Any], report: collections.abc.Callable[[str], None]) -> dict[str, t.Any]:
        """One call, as in the module."""
        return run(request_from_params(params, bool(self._task.check_mode)), report)
