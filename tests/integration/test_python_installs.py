# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script that installs Python packages, with the real pip and two indexes of this machine's own.

The script runs outside of an image; only the paths of an image are replaced by those of a folder.
"""

from __future__ import annotations

import collections.abc as c
import json
import os
import pathlib
import subprocess
import typing as t
import venv

import pip
import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import build_context
from ansible_collections.muster.kube.tests.support.package_server import Indexes

SECONDS = 300


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> c.Iterator[Indexes]:
    """The indexes, served."""
    with Indexes(tmp_path_factory.mktemp("indexes")) as made:
        yield made


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a virtual environment, which the script goes on with; its pip is the one of these tests."""
    made = tmp_path_factory.mktemp("room")
    venv.create(made / "venv", with_pip=False)
    (packages,) = (made / "venv").glob("lib/python3*/site-packages")
    (packages / "pip").symlink_to(pathlib.Path(pip.__file__).parent)
    return made


def lock(indexes: Indexes) -> dict[str, t.Any]:
    """A lock whose second package comes from the second index, which has another name outside."""
    return indexes.lock("https://${NAME}:${WORD}@second.example/simple")


def install(room: pathlib.Path, indexes: Indexes, python: dict[str, t.Any]) -> subprocess.CompletedProcess[str]:
    """Do what the RUN instruction of the stack's Dockerfile says, in a folder."""
    stack = {
        "base": "x",
        "python": {"indexes": [{"name": "second", "secret": "second"}], **python},
        "secrets": [{"id": "second"}],
    }
    context = build_context(stack_from_data(stack, "the stack"))
    for file in context.files:
        text = file.content.decode().replace("/run/secrets", f"{room}/secrets")
        (room / pathlib.Path(file.name).name).write_text(text.replace("/opt/muster/venv", f"{room}/venv"))
    (room / "secrets").mkdir(exist_ok=True)
    (room / "secrets" / "second").write_text(f"http://me:word@{indexes.address}/second/")
    (instruction,) = [line for line in context.dockerfile.splitlines() if line.startswith("RUN ")]
    words = json.loads(instruction[instruction.index('["') :])
    command = ["sh", str(room / pathlib.Path(words[1]).name), *words[2:]]
    environment = {"PATH": os.environ["PATH"], "HOME": str(room), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
    )


def test_each_package_of_a_lock_comes_from_its_own_index(indexes: Indexes, room: pathlib.Path) -> None:
    done = install(room, indexes, {"pipfile_lock": lock(indexes)})
    assert done.returncode == 0, done.stderr
    assert "word" not in done.stdout + done.stderr
    program = "import apple, pear; print(apple.TEXT); print(pear.TEXT)"
    seen = subprocess.run(
        [room / "venv/bin/python", "-c", program], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert seen.stdout.splitlines() == ["from the first index", "from the second index"]


def test_a_package_with_another_hash_is_refused(indexes: Indexes, room: pathlib.Path) -> None:
    document = lock(indexes)
    document["default"] = {"plum": {"version": "==1.0", "hashes": ["sha256:" + "0" * 64]}}
    done = install(room, indexes, {"pipfile_lock": document})
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_another_python_is_refused(indexes: Indexes, room: pathlib.Path) -> None:
    document = lock(indexes)
    document["_meta"]["requires"]["python_version"] = "2.7"
    done = install(room, indexes, {"pipfile_lock": document})
    assert done.returncode == 1
    assert "muster.kube: the stack asks for Python ==2.7.*, which the base image does not have" in done.stderr
