# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write requirements.lock anew from the dependency groups of pyproject.toml, with the uv pinned there.

Usage: lock.py CACHE (through `make lock`)
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import environments

HEADER = """\
# Exact versions of every Python package that `make` installs, one block per virtual environment.
# Written by `make lock` from the dependency groups of pyproject.toml; do not edit.
"""


def compile_block(uv: pathlib.Path, requirements: list[str]) -> str:
    """Resolve one group for every supported Python at once."""
    command = [str(uv), "pip", "compile", "-q", "--universal", "--python-version", "3.11", "--no-header"]
    options = ["--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "-"]
    text = "\n".join(requirements) + "\n"
    return subprocess.run([*command, *options], input=text, check=True, capture_output=True, text=True).stdout


def main(cache: str) -> None:
    """Compile every group but the one that brings the compiler itself."""
    groups = tomllib.loads((environments.REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    uv = environments.make_venv(pathlib.Path(cache), "lock", groups.pop("lock")) / "bin/uv"
    blocks = [f"\n# [{name}]\n{compile_block(uv, requirements)}" for name, requirements in groups.items()]
    environments.LOCK_FILE.write_text(HEADER + "".join(blocks))


if __name__ == "__main__":
    main(sys.argv[1])
