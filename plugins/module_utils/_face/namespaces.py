# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option by which a task is for some namespaces only."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def listed_namespaces(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """The namespaces named, each once; an empty list is most likely a mistake and would mean all of them to some."""
    if names is None:
        return None
    if not names:
        raise BadInput("read", "namespaces", "the list is empty; leave the option out to mean all namespaces")
    return tuple(dict.fromkeys(names))
