# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""image_build inside the Ansible process, so that the build can be watched; the builder's script is read here."""

from __future__ import annotations

import collections.abc
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.auth import auth_from_params, secrets_of_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._args.image_build import (
    IMAGE_BUILD_RULES,
    image_build_argument_spec,
    image_build_terms,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildTerms, run_build
from ansible_collections.muster.kube.plugins.module_utils._flow.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._policy.dockerfile import GENERATOR_VERSION
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "roles" / "inspection" / "files" / "build.sh"


class ActionModule(InProcessAction):
    """The controller's side of image_build."""

    def argument_spec(self) -> dict[str, t.Any]:
        """The module's options."""
        return image_build_argument_spec()

    def argument_rules(self) -> dict[str, t.Any]:
        """What may be given together."""
        return IMAGE_BUILD_RULES

    def check_libraries(self) -> None:
        """The packages the work needs."""
        check_libraries()

    def secrets(self, params: dict[str, t.Any]) -> collections.abc.Iterable[str]:
        """Secrets inside a kubeconfig given as dict."""
        return secrets_of_kubeconfig(params["kubeconfig"])

    def default_args(self, args: dict[str, t.Any]) -> dict[str, t.Any]:
        """The collection's own script, unless the task brings another."""
        return args if args.get("build_script") else {**args, "build_script": SCRIPT.read_text(encoding="utf-8")}

    def work(self, params: dict[str, t.Any], report: collections.abc.Callable[[str], None]) -> dict[str, t.Any]:
        """One call, as in the module."""
        terms = BuildTerms(**image_build_terms(params, bool(self._task.check_mode), GENERATOR_VERSION))
        return run_build(lambda: connect(auth_from_params(params)), terms, report)
