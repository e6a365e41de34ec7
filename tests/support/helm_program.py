# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program that is called like helm, writes down how it was called, and does nothing."""

from __future__ import annotations

import pathlib
import sys

_PROGRAM = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path({directory!r})
arguments = sys.argv[1:]
if arguments[0] == "version":
    print({version!r})
    sys.exit(0)
files = {{path: pathlib.Path(path).read_text() for path in arguments if os.path.isfile(path)}}
call = {{"arguments": arguments, "files": files, "environment": dict(os.environ)}}
(here / "called").write_text(json.dumps(call))
if (here / "fails").exists():
    sys.stderr.write((here / "fails").read_text())
    sys.exit(1)
if arguments[0] == "pull":
    folder = pathlib.Path(arguments[arguments.index("--destination") + 1])
    (folder / "widget-1.2.3.tgz").write_bytes((here / "archive").read_bytes())
    print("Pulled: example.com/widget:1.2.3", file=sys.stderr)
    print("Digest: sha256:" + "1" * 64, file=sys.stderr)
if arguments[0] == "template":
    print("rendered")
"""


def written_helm(directory: pathlib.Path, version: str = "v3.22.0") -> str:
    """The path of such a program."""
    path = directory / "helm"
    path.write_text(_PROGRAM.format(python=sys.executable, directory=str(directory), version=version), encoding="utf-8")
    path.chmod(0o700)
    return str(path)
