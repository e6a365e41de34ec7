# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Outcomes of what is done without a cluster: one JSON file each, in the cache of the user who runs it."""

from __future__ import annotations

import json
import os
import pathlib

from ansible_collections.muster.kube.plugins.module_utils._host.files import write_file
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json


def cache_folder(sort: str) -> pathlib.Path:
    """Where outcomes of this sort are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "muster.kube" / sort


def read_cached(folder: pathlib.Path, name: str) -> Data | None:
    """What was kept under a name; None when there is nothing that can be read."""
    try:
        kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) else None


def write_cached(folder: pathlib.Path, name: str, data: Data, what: str) -> None:
    """Keep something under a name, in one step; what names it in a failure."""
    try:
        write_file(folder / f"{name}.json", canonical_json(data), folder_mode=0o777)
    except OSError as error:
        raise MusterError("store", f"{what} in {folder}", str(error)) from error
