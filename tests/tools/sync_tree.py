# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copy the working tree to a real .../ansible_collections/muster/kube, which all Ansible tools insist on.

Only what git tracks or would track is copied, unchanged files keep their time stamps, stale files are removed. With
"shipped" only what users get is copied, and the settings of ansible-test: its checks are about that, and take long.
Usage: sync_tree.py REPOSITORY TARGET [shipped]
"""

from __future__ import annotations

import filecmp
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Tells ansible-test which versions of Python count.
TEST_SETTINGS = "tests/config.yml"


def wanted_files(repository: pathlib.Path) -> list[str]:
    """Tracked files plus untracked ones that are not ignored, less those deleted in the working tree."""
    listing = subprocess.run(
        ["git", "-C", str(repository), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    ).stdout.decode()
    return sorted(name for name in set(listing.split("\0")) if name and (repository / name).is_file())


def is_shipped(name: str, ignored: list[str]) -> bool:
    """Whether a file is in the tarball: neither it nor a folder above it is ignored."""
    path = pathlib.PurePosixPath(name)
    above = [str(folder) for folder in (path, *path.parents)]
    return not any(fnmatch.fnmatch(folder, pattern) for folder in above for pattern in ignored)


def shipped_files(repository: pathlib.Path, names: list[str]) -> list[str]:
    """Those that users get, as galaxy.yml says, and the settings of ansible-test."""
    after = (repository / "galaxy.yml").read_text(encoding="utf-8").partition("\nbuild_ignore:\n")[2]
    ignored = re.findall(r'^  - "?([^"\n]+)"?$', after, re.MULTILINE)
    return [name for name in names if name == TEST_SETTINGS or is_shipped(name, ignored)]


def sync(repository: pathlib.Path, target: pathlib.Path, shipped: bool = False) -> None:
    """Make target hold exactly the wanted files."""
    wanted = wanted_files(repository)
    if shipped:
        wanted = shipped_files(repository, wanted)
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
    sync(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:] == ["shipped"])
