# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Python packages that work with gangs needs, asked for before anything is tried."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import YAML_IMPORT_ERROR
from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import IMPORT_TRACEBACK
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary


def check_libraries() -> None:
    """Raise MissingLibrary for the first package that is not there."""
    for name, error in (("kubernetes", IMPORT_TRACEBACK), ("PyYAML", YAML_IMPORT_ERROR)):
        if error is not None:
            raise MissingLibrary(name, error)
