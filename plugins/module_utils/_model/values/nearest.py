# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names that do not exist: what a reader is told, with the one that was most likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

# So many names are listed where none is near.
_MOST_LISTED = 10
_NEAR = 0.5


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """What could have been meant by a name that is not among the known ones."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, 1, _NEAR)
    if near:
        return f"did you mean {near[0]}?"
    if not names:
        return "there is none at all"
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"known are {', '.join(names[:_MOST_LISTED])}{more}"


def unknown_name(action: str, kind: str, name: str, known: Iterable[str]) -> BadInput:
    """The error for something that does not exist, to be raised by the caller."""
    return BadInput(action, f"{kind} {name}", f"it does not exist; {nearest_hint(name, known)}")
