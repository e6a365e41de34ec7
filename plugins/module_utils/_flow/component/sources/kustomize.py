# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kustomization, rendered by kubectl."""

from __future__ import annotations

import dataclasses
import os
import pathlib

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import checked_definitions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.source import (
    Rendered,
    Runner,
    rendered,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import KustomizeSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

# What kubectl may know of our environment: where it finds programs and keeps its files, no cluster and no credential.
_PASSED_ON = ("HOME", "PATH", "TMPDIR")


@dataclasses.dataclass(frozen=True, slots=True)
class Kustomization:
    """The kustomization of a component."""

    source: KustomizeSource
    where: str
    run: Runner
    kubectl: str = "kubectl"

    def render(self) -> Rendered:
        """The objects that kubectl makes of the directory."""
        directory = pathlib.Path(self.source.src)
        if not directory.is_dir():
            raise BadInput("read", f"{self.where}: src {directory}", "it is no directory")
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        try:
            done = self.run([self.kubectl, "kustomize", str(directory)], environment, None)
        except FileNotFoundError as error:
            cause = "the program kubectl is not there; it renders kustomizations"
            raise MusterError("run", f"{self.where}: {self.kubectl}", cause) from error
        if done.returncode != 0:
            raise BadInput("render", f"{self.where}: src {directory}", done.stderr.strip() or "kubectl failed")
        return rendered(checked_definitions(done.stdout, None, self.where))
