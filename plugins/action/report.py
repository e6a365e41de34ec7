# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""report with the collection's own template, which lies on the controller only."""

from __future__ import annotations

import collections.abc
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._args.report import report_argument_spec, report_request
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import write_report
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "roles" / "dispatcher" / "files" / "report.html"


class ActionModule(InProcessAction):
    """The controller's side of report."""

    def argument_spec(self) -> dict[str, t.Any]:
        """The module's options."""
        return report_argument_spec()

    def check_libraries(self) -> None:
        """Nothing but Python is needed."""

    def default_args(self, args: dict[str, t.Any]) -> dict[str, t.Any]:
        """The collection's own template, unless the task brings another."""
        return args if args.get("template") else {**args, "template": TEMPLATE.read_text(encoding="utf-8")}

    def work(self, params: dict[str, t.Any], report: collections.abc.Callable[[str], None]) -> dict[str, t.Any]:
        """One call, as in the module."""
        return write_report(report_request(params, bool(self._task.check_mode)))
