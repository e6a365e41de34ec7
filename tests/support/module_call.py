# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running the face of a module in the test's own process, up to its exit."""

from __future__ import annotations

import dataclasses
import json
import types
import typing as t

import pytest
from ansible.module_utils import basic
from ansible.module_utils.common.text.converters import to_bytes


class _Left(BaseException):
    """The module has answered; nothing of it may run after that."""


@dataclasses.dataclass(frozen=True)
class Answered:
    """What a module exited with, and the module itself."""

    result: dict[str, t.Any]
    module: basic.AnsibleModule


def call_module(monkeypatch: pytest.MonkeyPatch, face: types.ModuleType, options: dict[str, t.Any]) -> Answered:
    """Run main() of a module with these options; _ansible_check_mode and the like may be among them."""

    def leave(module: basic.AnsibleModule, **result: t.Any) -> None:
        raise _Left(Answered(result, module))

    def fail(module: basic.AnsibleModule, **result: t.Any) -> None:
        leave(module, failed=True, **result)

    monkeypatch.setattr(basic.AnsibleModule, "exit_json", leave)
    monkeypatch.setattr(basic.AnsibleModule, "fail_json", fail)
    internal = {"_ansible_remote_tmp": "/tmp", "_ansible_keep_remote_files": False}
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", to_bytes(json.dumps({"ANSIBLE_MODULE_ARGS": {**internal, **options}})))
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    with pytest.raises(_Left) as left:
        face.main()
    answered: Answered = left.value.args[0]
    return answered


def call_tasks(
    face: types.ModuleType, tasks: t.Mapping[str, t.Mapping[str, t.Any]], **defaults: t.Any
) -> dict[str, dict[str, t.Any]]:
    """The results of tasks that name one module each, as a play would register them, without the play around them."""
    results = {}
    for name, task in tasks.items():
        (options,) = task.values()
        with pytest.MonkeyPatch.context() as patch:
            answered = call_module(patch, face, {**defaults, **options})
        results[name] = json.loads(json.dumps({"failed": False, **answered.result}))
    return results
