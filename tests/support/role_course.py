# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Applications of a role and what happens between them, in one play, since the start of a play takes longest."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import typing as t

from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.play import Played, play_tasks

Object = dict[str, t.Any]


class Cluster(t.Protocol):
    """What a course needs of a cluster."""

    kubeconfig: str
    kubectl: str


@dataclasses.dataclass(frozen=True)
class Role:
    """A role with the settings of all its applications, and the facts it sets that are looked at."""

    name: str
    settings: Object
    facts: tuple[str, ...] = ()

    @property
    def kubeconfig_setting(self) -> str:
        """The variable that says which cluster."""
        return f"{self.name.rpartition('.')[2]}_kubeconfig"


class RoleCourse:
    """One play to be."""

    def __init__(self, role: Role, cluster: Cluster, directory: pathlib.Path) -> None:
        """Nothing happens yet."""
        self.role = role
        self.cluster = cluster
        self.directory = directory
        self.tasks: dict[str, Object] = {}

    def apply(
        self, name: str, kubeconfig: object = None, *, check: bool = False, user: str | None = None, **settings: t.Any
    ) -> None:
        """Apply the role, as another user if one is named; the facts it sets are the result of this name."""
        connection = {self.role.kubeconfig_setting: str(kubeconfig or self.cluster.kubeconfig)}
        role = {"name": self.role.name, "apply": {"check_mode": check, "environment": _acting_as(user)}}
        variables = {**connection, **self.role.settings, **settings}
        if self.role.facts:
            self.tasks[f"forget_{name}"] = {"ansible.builtin.set_fact": dict.fromkeys(self.role.facts, "")}
        self.tasks[f"role_{name}"] = {"ansible.builtin.include_role": role, "vars": variables, "ignore_errors": False}
        self.tasks[name] = {"ansible.builtin.debug": {"msg": f"{{{{ [{', '.join(self.role.facts)}] }}}}"}}

    def apply_in_vain(self, name: str, user: str | None = None, **settings: t.Any) -> None:
        """Apply the role, which must fail; what it says is the result of this name."""
        variables = {self.role.kubeconfig_setting: self.cluster.kubeconfig, **self.role.settings, **settings}
        wanted = {"name": self.role.name, "apply": {"environment": _acting_as(user)}}
        role = {"ansible.builtin.include_role": wanted, "vars": variables}
        keep = {"ansible.builtin.set_fact": {name: "{{ ansible_failed_result.msg }}"}}
        self.tasks[name] = {"block": [role], "rescue": [keep]}

    def kubectl(self, name: str, *arguments: str, text: str = "", may_fail: bool = False) -> None:
        """Run kubectl; what it prints is the result of this name."""
        command = [self.cluster.kubectl, "--kubeconfig", self.cluster.kubeconfig, *arguments]
        self.tasks[name] = {"ansible.builtin.command": {"argv": command, "stdin": text}, "ignore_errors": may_fail}

    def play(self) -> Played:
        """Let it happen."""
        return play_tasks(self.directory, self.tasks)


def _acting_as(user: str | None) -> dict[str, str]:
    """The environment of tasks that are to have the rights of another user."""
    return {"K8S_AUTH_IMPERSONATE_USER": user} if user else {}


def part_of(played: Played, name: str) -> str:
    """What one application of the role printed."""
    return played.output.partition(f"TASK [role_{name}]")[2].partition(f"TASK [{name}]")[0]


def changes(played: Played, name: str) -> int:
    """How many tasks of one application of the role said that they changed something."""
    return part_of(played, name).count("changed: [localhost]")


@contextlib.contextmanager
def proxies_for(cluster: Cluster, directory: pathlib.Path, *names: str) -> t.Iterator[dict[str, ApiProxy]]:
    """Proxies by name: one for each application of the role whose requests are looked at."""
    with contextlib.ExitStack() as stack:
        started = {}
        for name in names:
            place = directory / name
            place.mkdir()
            started[name] = stack.enter_context(ApiProxy(cluster.kubeconfig, place))
        yield started
