# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tasks run by the real ansible-playbook, many in one play because each start costs more than the task itself."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import typing as t

from ansible_collections.muster.kube.tests.support.preloaded import preloaded

Task = dict[str, t.Any]
# Never reached when things work; many tasks may be in one play.
LONGEST = 900.0
# Writes the answers without a module, which would be packed and started for it.
KEEP_ANSWERS = """
import json
import pathlib
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        content = self._task.args["content"]
        text = content if isinstance(content, str) else json.dumps(content)
        pathlib.Path(self._task.args["dest"]).write_text(text, encoding="utf-8")
        return {"changed": True}
"""


@dataclasses.dataclass(frozen=True)
class Played:
    """What a playbook returned: the registered result of each task, and what was printed."""

    results: dict[str, t.Any]
    output: str

    def __getitem__(self, name: str) -> t.Any:
        """The result of one task."""
        return self.results[name]


def play_tasks(
    directory: pathlib.Path,
    tasks: t.Mapping[str, Task],
    *,
    variables: t.Mapping[str, t.Any] | None = None,
    module_defaults: t.Mapping[str, t.Any] | None = None,
    verbosity: int = 0,
) -> Played:
    """Run the tasks one after the other, failed ones included; each is registered under its name."""
    answers = directory / "answers.json"
    answers.unlink(missing_ok=True)
    registered = [step for name, task in tasks.items() for step in _steps(name, task)]
    content = "{{ {" + ", ".join(f"'{name}': {name}" for name in tasks) + "} | to_json }}"
    (directory / "action_plugins").mkdir(exist_ok=True)
    (directory / "action_plugins" / "keep_answers.py").write_text(KEEP_ANSWERS, encoding="utf-8")
    keep = {"keep_answers": {"dest": str(answers), "content": content}, "check_mode": False}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": dict(variables or {}),
        "module_defaults": dict(module_defaults or {}),
        "tasks": [*registered, keep],
    }
    playbook = directory / "playbook.json"
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    output, code = run_playbook(directory, playbook, ANSIBLE_VERBOSITY=str(verbosity))
    if code or not answers.exists():
        raise AssertionError(f"the playbook broke off:\n{output}")
    return Played(json.loads(answers.read_text(encoding="utf-8")), output)


def run_playbook(directory: pathlib.Path, *arguments: str | pathlib.Path, **variables: str) -> tuple[str, int]:
    """Run ansible-playbook in a directory with more variables of the environment: what it printed, how it ended."""
    ended = subprocess.run(
        [preloaded().python, pathlib.Path(sys.executable).with_name("ansible-playbook"), *arguments],
        cwd=directory,
        env={**_environment(directory), "PWD": str(directory), **variables},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=LONGEST,
    )
    return ended.stdout + ended.stderr, ended.returncode


def _steps(name: str, task: Task) -> list[Task]:
    """A task, and where it registers its result under a name of its own, a copy of that before others reuse it.

    A block registers nothing; one of its tasks sets the fact of its name.
    """
    if "block" in task:
        return [{"name": name, **task}]
    step = {"name": name, "ignore_errors": True, "register": name, **task}
    own = step["register"]
    return [step] if own == name else [step, {"ansible.builtin.set_fact": {name: "{{ " + own + " }}"}}]


def _environment(directory: pathlib.Path) -> dict[str, str]:
    """The run's own settings; no connection to any cluster can come from outside the playbook."""
    inherited = {
        name: value for name, value in os.environ.items() if name != "KUBECONFIG" and not name.startswith("K8S_AUTH_")
    }
    return {
        **inherited,
        **preloaded().environment,
        "ANSIBLE_ASYNC_DIR": str(directory / "async"),
        "ANSIBLE_HOME": str(directory / "ansible"),
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PYTHON_INTERPRETER": str(preloaded().python),
        "HOME": str(directory),
    }
