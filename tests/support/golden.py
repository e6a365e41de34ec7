# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Golden files: the output expected, below three comment lines. MUSTER_GOLDEN=write writes them anew."""

from __future__ import annotations

import os
import pathlib

HEADER = """\
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""


def expected(path: pathlib.Path, found: str) -> str:
    """What the golden file says; found is written to it first when that was asked for."""
    if os.environ.get("MUSTER_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEADER + found)
    text = path.read_text()
    if not text.startswith(HEADER):
        raise ValueError(f"{path.name} lacks its header")
    return text.removeprefix(HEADER)
