# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one family of errors: every failure names the action, the object and the cause."""

from __future__ import annotations

import pathlib
import traceback
import typing as t

UNFORESEEN = "unforeseen"


class MusterError(Exception):
    """A failure a user can act on: what was being done, to which object, and why it did not work."""

    def __init__(self, action: str, target: str, cause: str) -> None:
        """Keep the three parts apart so that results can carry them as separate keys."""
        super().__init__(f"Cannot {action} {target}: {cause}")
        self.action = action
        self.target = target
        self.cause = cause

    def as_result(self) -> dict[str, t.Any]:
        """The keys a module adds to its failure result."""
        return {"msg": str(self), "error": {"action": self.action, "object": self.target, "cause": self.cause}}


class BadInput(MusterError):
    """Something the user wrote cannot be understood; target names the object and the field."""


class NewerVersion(BadInput):
    """Something was stored by a newer version of the collection: it is left alone, for that version to go on with."""


def unforeseen(error: Exception) -> str:
    """An error of ours in one line, with the place in the code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {pathlib.PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{UNFORESEEN} {type(error).__name__}{place}: {error}"


class MissingLibrary(MusterError):
    """A Python package is not installed; faces answer with missing_required_lib."""

    def __init__(self, library: str, traceback: str) -> None:
        """Keep the package's name and the failed import for the message of the face."""
        super().__init__("use", f"the Python package {library}", "it is not installed")
        self.library = library
        self.traceback = traceback
