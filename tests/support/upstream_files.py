# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manifests that operators ship with their sources, read from the Go module cache."""

from __future__ import annotations

import json
import pathlib
import shutil

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import (
    Builder,
    find_go,
    required_go,
)
from ansible_collections.muster.kube.plugins.module_utils._host.commands import run_command
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES, cache_directory


def copy_of_module(program: str, part: str, destination: pathlib.Path, other: str | None = None) -> pathlib.Path:
    """A directory of a program's module, where it may be changed; the module is fetched if it is not there.

    Other names a module with its version that the program is built with, instead of its own.
    """
    catalogue = read_catalogue(FILES)
    wanted = catalogue.programs[program]
    place = FILES / "go" / wanted.source_name
    go = find_go(required_go((place / "go.mod").read_text(encoding="utf-8")))
    environment = Builder(go, catalogue, FILES, cache_directory(), lambda _text: None, 0).environment()
    command = [go.path, "mod", "download", "-json", other or f"{wanted.module}@{wanted.version}"]
    answer = run_command(command, environment, place)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    # Contents only: what Go keeps is read-only.
    source = pathlib.Path(json.loads(answer.stdout)["Dir"]) / part
    return pathlib.Path(shutil.copytree(source, destination, copy_function=shutil.copyfile))
