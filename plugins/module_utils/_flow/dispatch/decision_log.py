# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision log: every decision of a run as one JSON line in a file."""

from __future__ import annotations

import json
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Decision


class DecisionLog:
    """A file with one JSON line per decision; lines are only ever added."""

    def __init__(self, path: str | None) -> None:
        """None keeps no log."""
        self._path = None if path is None else pathlib.Path(path)

    def add(self, decisions: t.Iterable[Decision]) -> None:
        """Append the decisions of a cycle."""
        if self._path is None:
            return
        lines = [json.dumps(item.as_dict(), sort_keys=True) + "\n" for item in decisions]
        if not lines:
            return
        try:
            with self._path.open("a", encoding="utf-8") as log:
                log.writelines(lines)
        except OSError as error:
            raise MusterError("write", f"decision log {self._path}", str(error)) from error
