# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engines there are, by name: another one is one file and one entry."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import Engine

ENGINES: dict[str, type[Engine]] = {"embedded": Embedded}
