# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print the plays of a page of documentation, so that a test can run exactly what a reader pastes.

Usage: page_playbook.py [--own-cluster] PAGE

With --own-cluster the plays that start a local cluster are left out, as the pages tell readers who have one.
"""

from __future__ import annotations

import pathlib
import re
import sys


def plays_of(text: str, *, own_cluster: bool = False) -> str:
    """All YAML blocks that are lists of plays, one after the other."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    plays = [block for block in blocks if re.search(r"^  hosts: ", block, re.MULTILINE)]
    if own_cluster:
        plays = [block for block in plays if "muster.kube.local_cluster:" not in block]
    if not plays:
        raise SystemExit("The page holds no play")
    return "\n".join(plays)


if __name__ == "__main__":
    *options, page = sys.argv[1:]
    sys.stdout.write(plays_of(pathlib.Path(page).read_text(), own_cluster="--own-cluster" in options))
