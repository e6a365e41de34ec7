# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kustomization, rendered by kubectl."""

from __future__ import annotations

import dataclasses
import pathlib

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import checked_definitions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import SourcePrograms
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.source import (
    Rendered,
    is_address,
    rendered,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import KustomizeSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError


@dataclasses.dataclass(frozen=True, slots=True)
class Kustomization:
    """The kustomization of a component."""

    source: KustomizeSource
    where: str
    programs: SourcePrograms

    def render(self) -> Rendered:
        """The objects that kubectl makes of the directory or address."""
        src = self.source.src
        if src.startswith("-") or not (is_address(src) or pathlib.Path(src).is_dir()):
            raise BadInput("read", f"{self.where}: src {src}", "it is no directory and no address")
        try:
            done = self.programs.kustomize(src)
        except MusterError as error:
            cause = f"{error.target}: {error.cause}; it renders kustomizations"
            raise MusterError("render", f"{self.where}: src {src}", cause) from error
        if done.code:
            raise BadInput("render", f"{self.where}: src {src}", done.last_words)
        return rendered(checked_definitions(done.output.decode(), None, self.where))
