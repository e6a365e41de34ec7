# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand in for the pip bootstrap script that ansible-test would download.

ansible-test runs this file inside an environment that has no pip, with arguments such as `pip==24.2 --no-wheel`.
Python carries a pip of its own; only the wanted version has to be fetched from the package index.
"""

from __future__ import annotations

import os
import subprocess
import sys


def main(arguments: list[str]) -> None:
    """Unpack Python's own pip, then install the pinned packages among the arguments with it."""
    environment = {name: value for name, value in os.environ.items() if name != "GET_PIP"}
    # In a process of its own: ensurepip blanks pip's configuration for the process it runs in.
    subprocess.run(
        [sys.executable, "-m", "ensurepip", "--default-pip"], check=True, env=environment, stdin=subprocess.DEVNULL
    )
    pinned = [argument for argument in arguments if "==" in argument]
    if pinned:
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", *pinned],
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
