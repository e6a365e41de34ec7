# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of action plugins that do a module's work inside the Ansible process.

Running in place shows progress while it happens and pays for imports once per loop instead of once per item. It is only
possible where the module would run in this very place anyway; everywhere else the module is executed as usual.
"""

from __future__ import annotations

import abc
import collections.abc
import contextlib
import difflib
import os
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator, ValidationResult
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import MissingLibrary
from ansible_collections.muster.kube.plugins.module_utils._model.errors import MusterError

Result = dict[str, t.Any]


class InProcessAction(ActionBase):  # type: ignore[misc]  # Ansible carries no types
    """What all such action plugins share; a subclass says what its module accepts and what function does the work."""

    _requires_connection = True
    _supports_check_mode = True
    _supports_async = True

    @abc.abstractmethod
    def argument_spec(self) -> dict[str, t.Any]:
        """The same specification as the module's."""

    def argument_rules(self) -> dict[str, t.Any]:
        """Rules between options, by the names AnsibleModule gives them (mutually_exclusive and so on)."""
        return {}

    @abc.abstractmethod
    def check_libraries(self) -> None:
        """Raise MissingLibrary when this process cannot do the module's work."""

    def secrets(self, _params: Result) -> collections.abc.Iterable[str]:
        """Values to mask besides those that the specification marks."""
        return ()

    def default_args(self, args: Result) -> Result:
        """The task's options, completed by what only the controller knows."""
        return args

    @abc.abstractmethod
    def work(self, params: Result, report: collections.abc.Callable[[str], None]) -> Result:
        """Do the module's work with validated options and return its result; a MusterError becomes a failure."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Do the work here if possible, else execute the module."""
        variables = task_vars or {}
        result: Result = super().run(tmp, variables)
        args = self.default_args(plain(self._task.args))
        if self._runs_here():
            result.update(self._run_here(args, variables))
        else:
            # Ansible's own wrapper knows how to detach a module, unless the connection does that itself.
            detach = bool(self._task.async_val) and not self._connection.has_native_async
            answer = self._execute_module(module_args=args, task_vars=variables, wrap_async=detach)
            result.update(answer)
        return result

    def _runs_here(self) -> bool:
        """True when the module would run in this place, as this user, now."""
        if self._connection.transport not in ("local", "ansible.builtin.local"):
            return False
        if self._task.async_val or self._play_context.become:
            return False
        try:
            self.check_libraries()
        except MissingLibrary:
            return False
        return True

    def _run_here(self, args: Result, variables: Result) -> Result:
        """Validate, work, and give the result the shape a module's has."""
        validator = ArgumentSpecValidator(self.argument_spec(), **self.argument_rules())
        with self._task_environment():
            # Inside, since options may fall back to environment variables.
            checked = validator.validate(args)
            params: Result = checked.validated_parameters
            hidden = set(checked._no_log_values)
            if checked.error_messages:
                result: Result = {"failed": True, "msg": self._complaints(checked)}
            else:
                hidden.update(self.secrets(params))
                result = self._work_safely(params, self._reporter(variables, hidden))
        result["invocation"] = {"module_args": params}
        masked: Result = remove_values(result, hidden)
        masked["ran"] = "in_process"
        if self._task.no_log:
            masked["_ansible_no_log"] = True
        return masked

    def _complaints(self, checked: ValidationResult) -> str:
        """What is wrong with the options; of one that does not exist the nearest that does."""
        others = [str(error) for error in checked.errors if not isinstance(error, UnsupportedError)]
        unknown = sorted((name,) if isinstance(name, str) else tuple(name) for name in checked.unsupported_parameters)
        if not unknown:
            return ", ".join(others)
        told = "; ".join(_unknown_option(path, self.argument_spec()) for path in unknown)
        return ", ".join([f"Unsupported parameters for ({self._task.action}) module: {told}", *others])

    def _work_safely(self, params: Result, report: collections.abc.Callable[[str], None]) -> Result:
        """Turn our own family of errors into a failed result; anything else is a defect and shown as such."""
        try:
            return self.work(params, report)
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

    @contextlib.contextmanager
    def _task_environment(self) -> t.Iterator[None]:
        """The variables of the task's environment keyword, set while the work runs."""
        wanted: dict[str, t.Any] = {}
        self._compute_environment_string(wanted)
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update({plain(name): str(plain(value)) for name, value in wanted.items()})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def plain(value: t.Any) -> t.Any:
    """The value with Ansible's own types (tagged, unsafe, lazy, vaulted) replaced by plain ones.

    They behave differently where it matters: they cannot be serialized by others and may be templated again.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, collections.abc.Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)


def _unknown_option(path: tuple[str, ...], spec: Result) -> str:
    """An option that does not exist, and what could have been meant."""
    for name in path[:-1]:
        spec = (spec.get(name) or {}).get("options") or {}
    known = sorted({*spec, *(alias for option in spec.values() for alias in option.get("aliases") or ())})
    near = difflib.get_close_matches(path[-1], known, 1, 0.6)
    meant = f"did you mean {near[0]}?" if near else f"supported are {', '.join(known)}"
    return f"{'.'.join(path)} ({meant})"
