# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inspections in tests: the options of a task, validated as the module does it, on their way through the flow."""

from __future__ import annotations

import pathlib
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.modules.inspection import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionInfoOptions,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import InspectionOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects

FILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "inspection" / "files"
Options = dict[str, t.Any]


def params_of(options: Options) -> Options:
    """A task's options as the module sees them; the collection's own programs come as from the action plugin."""
    programs = {"collector": "collector.sh", "build_script": "build.sh"}
    own = {name: (FILES / file).read_text(encoding="utf-8") for name, file in programs.items()}
    given = {name: value for name, value in {**own, **options}.items() if value is not None}
    checked = ArgumentSpecValidator(FACE.spec, **FACE.rules).validate(given)
    if checked.error_messages:
        raise AssertionError(checked.error_messages)
    return t.cast("Options", checked.validated_parameters)


def terms_of(options: Options, *, check_mode: bool = False) -> InspectionOptions:
    """The terms behind a task's options."""
    return FACE.options(params_of(options), check_mode)


class Inspector:
    """Runs inspections in one namespace, with a client of its own for each, as tasks have it."""

    def __init__(self, kubeconfig: str | pathlib.Path, namespace: str, **defaults: t.Any) -> None:
        """Remember where; defaults are options of every inspection."""
        self.kubeconfig = str(kubeconfig)
        self.namespace = namespace
        self.defaults = defaults
        self.said: list[str] = []
        self.on_report: t.Callable[[str], object] = len

    def connect(self) -> KubeClient:
        """A new connection."""
        return connect({"kubeconfig": self.kubeconfig})

    def report(self, text: str) -> None:
        """Remember what was said, and let the test act on it."""
        self.said.append(text)
        self.on_report(text)

    def run(self, *, check_mode: bool = False, **options: t.Any) -> Options:
        """One task; the failure of an inspection is part of the answer."""
        wanted = {"namespace": self.namespace, **self.defaults, **options}
        return run_inspection(self.connect, terms_of(wanted, check_mode=check_mode), self.report)

    def remove(self, **options: t.Any) -> Options:
        """One task that removes inspections."""
        wanted = {"namespace": self.namespace, "state": "absent", **options}
        return run_inspection(self.connect, terms_of(wanted), self.report)

    def cancel(self, **options: t.Any) -> Options:
        """One task that cancels inspections."""
        wanted = {"namespace": self.namespace, "state": "cancelled", **options}
        return run_inspection(self.connect, terms_of(wanted), len)

    def info(self, **question: t.Any) -> list[Options]:
        """What inspection_info tells."""
        asked = InspectionInfoOptions(namespace=self.namespace, **question)
        return t.cast("list[Options]", answer_inspections(self.connect(), asked)["inspections"])

    def names(self, api: str, plural: str) -> list[str]:
        """The names of all objects of a kind in the namespace, the cluster's own left out."""
        path = resource_path(api, plural, self.namespace)
        listing = list_objects(self.connect(), path, keep=lambda raw: raw["metadata"]["name"])
        return sorted(name for name in listing.items if name != "kube-root-ca.crt")
