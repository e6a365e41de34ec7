# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes the place of python where a script is to be run: a preloaded process is asked for a fork that runs it.

Who has lost the address of that process, as behind sudo, and who asks for anything but a script, gets python itself.
It runs without site-packages and imports little, since its own start is what every run pays.
"""

import array
import json
import os
import socket
import sys

PYTHON = "@PYTHON@"


def run(address):
    """Hand over script, environment, directory and standard streams; wait for the exit code."""
    order = {"arguments": sys.argv[1:], "environment": dict(os.environ), "directory": os.getcwd(), "umask": os.umask(0)}
    text = json.dumps(order).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        streams = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
        server.sendmsg([len(text).to_bytes(8, "big")], [streams])
        server.sendall(text)
        return int(server.recv(16) or b"255")


if __name__ == "__main__":
    place = os.environ.get("MUSTER_PRELOADED", "")
    if place and sys.argv[1:] and not sys.argv[1].startswith("-") and os.access(place, os.W_OK):
        sys.exit(run(place))
    os.execv(PYTHON, [PYTHON, *sys.argv[1:]])
