# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of all action plugins: options completed and checked on the controller before the module sees them.

Files are found where users of kubernetes.core expect it, and an option that does not exist is answered with the
nearest one that does, wherever the module runs.
"""

from __future__ import annotations

import collections.abc
import contextlib
import difflib
import os
import pathlib
import typing as t
from functools import partial

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator, ValidationResult
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.plugin_utils._found_files import with_found_files

Result = dict[str, t.Any]
_COLLECTION = pathlib.Path(__file__).resolve().parents[2]
# What a task asks for that runs nothing, and so needs none of the collection's files.
_ENDED = ("absent", "cancelled")
# What Ansible's own validation raises for values such as a number in place of a mapping with suboptions.
_STUMBLES = (AttributeError, OverflowError, RecursionError, TypeError, ValueError)


class CheckedAction(ActionBase):  # type: ignore[misc]  # Ansible carries no types
    """What all action plugins share; a subclass names the face of its module."""

    _requires_connection = True
    _supports_check_mode = True
    _supports_async = True

    face: t.ClassVar[Face[t.Any]]

    def default_args(self, args: Result) -> Result:
        """The task's options, completed by files of the collection, which only the controller has."""
        if args.get("state") in _ENDED:
            return args
        spec, files = self.face.spec, self.face.files
        return {**args, **{name: _filled(spec[name]["type"], files[name], args.get(name)) for name in files}}

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Complete the options, then do the work."""
        variables = task_vars or {}
        result: Result = super().run(tmp, variables)
        try:
            args = self.default_args(self._found_files(plain(self._task.args)))
            result.update(self.perform(args, variables))
        except MusterError as error:
            return {**result, "failed": True, **error.as_result()}
        return result

    def perform(self, args: Result, variables: Result) -> Result:
        """The task's work: the module is executed."""
        return self._run_module(args, variables)

    def _found_files(self, args: Result) -> Result:
        """Names of files become paths; where the task runs on another machine its files lie there."""
        if not self._connects_here():
            return args
        return with_found_files(args, self.face.spec, partial(self._find_needle, "files"), self._loader)

    def _run_module(self, args: Result, variables: Result) -> Result:
        """Execute the module; an option it does not know is refused here, with the nearest that it does."""
        with self._task_environment():
            checked = validated(self.face, args)
        if checked.unsupported_parameters:
            return {"failed": True, "msg": self._complaints(checked)}
        # Ansible's own wrapper knows how to detach a module, unless the connection does that itself.
        detach = bool(self._task.async_val) and not self._connection.has_native_async
        answer: Result = self._execute_module(module_args=args, task_vars=variables, wrap_async=detach)
        return answer

    def _connects_here(self) -> bool:
        """True when the task is for this machine."""
        return self._connection.transport in ("local", "ansible.builtin.local")

    def _complaints(self, checked: ValidationResult) -> str:
        """What is wrong with the options; of one that does not exist the nearest that does."""
        others = [str(error) for error in checked.errors if not isinstance(error, UnsupportedError)]
        unknown = sorted((name,) if isinstance(name, str) else tuple(name) for name in checked.unsupported_parameters)
        if not unknown:
            return ", ".join(others)
        problems = "; ".join(_unknown_option(path, self.face.spec) for path in unknown)
        return ", ".join([f"Unsupported parameters for ({self._task.action}) module: {problems}", *others])

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


def _filled(kind: str, place: str, given: t.Any) -> t.Any:
    """An option as the task gives it, else as files of the collection do; of several files single ones can be given."""
    path = _COLLECTION / place
    if kind == "dict":
        own = {file.name: file.read_text(encoding="utf-8") for file in sorted(path.parent.glob(path.name))}
        return given if given and not isinstance(given, dict) else own | (given or {})
    if given not in (None, ""):
        return given
    return str(path) if kind == "path" else path.read_text(encoding="utf-8")


def validated(face: Face[t.Any], args: Result) -> ValidationResult:
    """What Ansible makes of the options; one whose value it stumbles over instead of refusing it is named."""
    try:
        checked = ArgumentSpecValidator(face.spec, **face.rules).validate(args)
        # A module writes its options to the log of the system, which numbers of thousands of digits end.
        str(checked.validated_parameters)
        return checked
    except _STUMBLES as error:
        for name, value in args.items():
            if name in face.spec and not _is_readable(face.spec[name], value):
                wanted = face.spec[name].get("type", "str")
                raise BadInput("read", f"option {name}", f"this cannot be made a {wanted}") from error
        raise


def _is_readable(option: Result, value: t.Any) -> bool:
    """Whether Ansible gets through one value, even if it refuses it."""
    try:
        checked = ArgumentSpecValidator({"value": {**option, "required": False}}).validate({"value": value})
        str(checked.validated_parameters)
    except _STUMBLES:
        return False
    return True


def _unknown_option(path: tuple[str, ...], spec: Result) -> str:
    """An option that does not exist, and what could have been meant."""
    for name in path[:-1]:
        spec = (spec.get(name) or {}).get("options") or {}
    known = sorted({*spec, *(alias for option in spec.values() for alias in option.get("aliases") or ())})
    near = difflib.get_close_matches(path[-1], known, 1, 0.6)
    meant = f"did you mean {near[0]}?" if near else f"supported are {', '.join(known)}"
    return f"{'.'.join(path)} ({meant})"
