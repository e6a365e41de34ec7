# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The declaration of a module: what it accepts, and how its work is done, wherever that happens.

The module and its action plugin share it, so that a task is understood alike on the controller and elsewhere.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_from_params, kubeconfig_secrets

Spec = dict[str, dict[str, t.Any]]
Params = collections.abc.Mapping[str, t.Any]
Result = dict[str, t.Any]
Report = collections.abc.Callable[[str], None]
Options = t.TypeVar("Options")


def nothing_needed() -> None:
    """The libraries of work for which Python alone is enough."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """What the work of a task knows besides its own options."""

    # The connection options; a face that talks to an API server opens its clients with them.
    auth: collections.abc.Mapping[str, t.Any]
    # Where progress is reported.
    report: Report
    check_mode: bool
    diff: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Face(t.Generic[Options]):
    """One module of the collection."""

    name: str
    # The argument specification, as AnsibleModule wants it.
    spec: Spec
    # Makes typed options of validated ones and of whether the task is in check mode; BadInput for what makes no sense.
    options: collections.abc.Callable[[Params, bool], Options]
    # Does what the options ask for; returns the keys of the result, which may say failed itself.
    work: collections.abc.Callable[[Options, Call], Result]
    # Rules between options, by the names AnsibleModule gives them (mutually_exclusive and so on).
    rules: collections.abc.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    # Raises MissingLibrary when this process cannot do the work; asked only where it could be done in it.
    libraries: collections.abc.Callable[[], None] = nothing_needed
    # Texts to mask, besides the options marked no_log.
    masks: collections.abc.Callable[[Params], collections.abc.Iterable[str]] = kubeconfig_secrets
    # Options that the controller fills with files of the collection, by their places in it. The type of the option says
    # how: a path is the place itself, a str the text of the file, a dict the texts of a pattern's files by their names.
    files: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def only_reads(self) -> bool:
        """Whether the module never changes anything, as those do whose name says so."""
        return self.name.endswith("_info")

    def answer(self, params: Params, *, check_mode: bool, diff: bool, report: Report) -> Result:
        """Do the work of a task with its validated options."""
        call = Call(auth_from_params(params), report, check_mode, diff)
        return self.work(self.options(params, check_mode), call)
