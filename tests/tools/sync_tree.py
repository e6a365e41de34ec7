# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copy the working tree to a real .../ansible_collections/muster/kube, which all Ansible tools insist on.

Only what git tracks or would track is copied, unchanged files keep their time stamps, stale files are removed.
Usage: sync_tree.py REPOSITORY TARGET
"""

from __future__ import annotations

import filecmp
import os
import pathlib
import shutil
import subprocess
import sys


def wanted_files(repository: pathlib.Path) -> list[str]:
    """Tracked files plus untracked ones that are not ignored, less those deleted in the working tree."""
    listing = subprocess.run(
        ["git", "-C", str(repository), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    ).stdout.decode()
    return sorted(name for name in set(listing.split("\0")) if name and (repository / name).is_file())


def sync(repository: pathlib.Path, target: pathlib.Path) -> None:
    """Make target hold exactly the wanted files."""
    wanted = wanted_files(repository)
    for name in wanted:
        source, copy = repository / name, target / name
        if not copy.is_file() or not filecmp.cmp(source, copy, shallow=False):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    keep = set(wanted)
    for folder, subfolders, names in os.walk(target, topdown=False):
        for name in names:
            path = pathlib.Path(folder, name)
            if path.relative_to(target).as_posix() not in keep:
                path.unlink()
        for name in subfolders:
            path = pathlib.Path(folder, name)
            if not any(path.iterdir()):
                path.rmdir()


if __name__ == "__main__":
    sync(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]))
