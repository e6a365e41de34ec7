# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of this machine that are run to their end."""

from __future__ import annotations

import collections.abc
import pathlib
import subprocess


def run_command(
    command: list[str],
    environment: collections.abc.Mapping[str, str] | None = None,
    directory: pathlib.Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program; the caller looks at its exit code. None of our standard input is left to it."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environment, cwd=directory
    )
