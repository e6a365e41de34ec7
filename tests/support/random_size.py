# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many random examples a property gets. Whether they are the same in each run is for the profile to say."""

from __future__ import annotations

import os

# What a full run has for one example of an ordinary one.
FULL_TIMES = 10


def examples(ordinary: int) -> int:
    """So many, and ten times as many in a full run."""
    full = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
    return ordinary * (FULL_TIMES if full else 1)
