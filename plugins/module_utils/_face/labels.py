# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option by which modules that only read choose objects by their labels."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec


def labels_argument_spec() -> Spec:
    """A list of selectors, all of which must hold."""
    return {"label_selectors": {"type": "list", "elements": "str", "aliases": ["label_selector"]}}


def label_selector(params: Params) -> str | None:
    """The selectors as the API server wants them; None when there are none."""
    return ",".join(params["label_selectors"] or ()) or None
