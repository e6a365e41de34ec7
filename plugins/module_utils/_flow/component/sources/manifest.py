# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manifest: objects given inline or in a file."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import checked_definitions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.source import Rendered, rendered
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import ManifestSource


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a component."""

    source: ManifestSource
    where: str

    def render(self) -> Rendered:
        """The objects as they are given."""
        return rendered(checked_definitions(self.source.definition, self.source.src, self.where))
