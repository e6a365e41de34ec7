# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install packages of the distribution with as few other changes to the machine as possible.

Nothing is removed for them: where that would be necessary apt refuses, and the user decides. Services that packages
bring are not started; a policy says so for the time of the call, unless the machine has one of its own.
Usage: packages.py PACKAGE...
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import typing

POLICY = pathlib.Path("/usr/sbin/policy-rc.d")
# 101: the action is forbidden by policy.
FORBID = "#!/bin/sh\nexit 101\n"
OPTIONS = ("-qq", "-y", "--no-install-recommends", "--no-remove", "--no-upgrade")


@contextlib.contextmanager
def no_services(policy: pathlib.Path = POLICY) -> typing.Iterator[None]:
    """Keep packages from starting what they bring."""
    if policy.exists():
        yield
        return
    policy.write_text(FORBID)
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def install(packages: typing.Sequence[str], policy: pathlib.Path = POLICY) -> None:
    """Install them; what goes wrong ends the program with apt's own words and some advice."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print("Installing with apt-get:", *packages, flush=True)
    with no_services(policy):
        for command in (["apt-get", "-qq", "update"], ["apt-get", *OPTIONS, "install", *packages]):
            if subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL).returncode:
                raise SystemExit(f"Please install these packages first: {' '.join(packages)}")


if __name__ == "__main__":
    install(sys.argv[1:])
