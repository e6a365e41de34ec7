# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of action plugins that do a module's work inside the Ansible process.

Running in place shows progress while it happens and pays for imports once per loop instead of once per item. It is only
possible where the module would run in this very place anyway; everywhere else the module is executed as usual.
"""

from __future__ import annotations

import collections.abc
import typing as t

from ansible.module_utils.common.parameters import remove_values
from ansible.utils.display import Display
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.plugin_utils._checked import CheckedAction, validated

Result = dict[str, t.Any]
_LONG = 1000


class InProcessAction(CheckedAction):
    """What all such action plugins share; a subclass names the face of its module."""

    def perform(self, args: Result, variables: Result) -> Result:
        """Do the work here if possible, else execute the module."""
        return self._run_here(args, variables) if self._runs_here() else self._run_module(args, variables)

    def _runs_here(self) -> bool:
        """True when the module would run in this place, as this user, now."""
        if not self._connects_here():
            return False
        if self._task.async_val or self._play_context.become:
            return False
        try:
            self.face.libraries()
        except MissingLibrary:
            return False
        return True

    def _run_here(self, args: Result, variables: Result) -> Result:
        """Validate, work, and give the result the shape a module's has."""
        with self._task_environment():
            # Inside, since options may fall back to environment variables.
            checked = validated(self.face, args)
            params: Result = checked.validated_parameters
            hidden = set(checked._no_log_values)
            if checked.error_messages:
                result: Result = {"failed": True, "msg": self._complaints(checked)}
            else:
                hidden.update(self.face.masks(params))
                result = self._work_safely(params, self._reporter(variables, hidden))
        result["invocation"] = {"module_args": self._shown(params)}
        masked: Result = remove_values(result, hidden)
        masked["ran"] = "in_process"
        if self._task.no_log:
            masked["_ansible_no_log"] = True
        return masked

    def _shown(self, params: Result) -> Result:
        """The options as the curious see them: programs that the collection itself adds by their length only."""
        return {
            name: f"({len(str(value))} characters of the collection's own)"
            if isinstance(value, str | dict) and len(str(value)) > _LONG and name not in self._task.args
            else value
            for name, value in params.items()
        }

    def _work_safely(self, params: Result, report: collections.abc.Callable[[str], None]) -> Result:
        """Turn our own family of errors into a failed result; anything else is a defect and shown as such."""
        try:
            return self.face.answer(
                params, check_mode=bool(self._task.check_mode), diff=bool(self._task.diff), report=report
            )
        except MusterError as error:
            return {"failed": True, **error.as_result()}

    def _reporter(self, variables: Result, hidden: set[str]) -> collections.abc.Callable[[str], None]:
        """Where progress goes: to the screen with the host's name, masked; nowhere when the task hides its output."""
        if self._task.no_log:
            return lambda _text: None
        host = variables.get("inventory_hostname", "localhost")
        name = self._task.action.rpartition(".")[2]
        display = Display()

        def report(text: str) -> None:
            """Show one line."""
            display.display(f"[{host}] {name}: {remove_values(text, hidden)}")

        return report
