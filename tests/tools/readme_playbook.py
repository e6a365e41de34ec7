# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print the first playbook of the README, so that a test can run exactly what a reader pastes.

Usage: readme_playbook.py README
"""

from __future__ import annotations

import pathlib
import re
import sys


def first_playbook(text: str) -> str:
    """The first YAML block that is a list of plays."""
    for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if re.search(r"^  hosts: ", block, re.MULTILINE):
            return str(block)
    raise SystemExit("The README holds no playbook")


if __name__ == "__main__":
    sys.stdout.write(first_playbook(pathlib.Path(sys.argv[1]).read_text()))
