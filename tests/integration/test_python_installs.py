# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script that installs Python packages, with the real pip and two indexes of this machine's own.

The script runs outside of an image; only the paths of an image are replaced by those of a folder.
"""

from __future__ import annotations

import base64
import collections.abc as c
import functools
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import threading
import typing as t
import venv
import zipfile

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.stack import stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._policy.dockerfile import build_context

SECONDS = 300


class Indexes:
    """Two package indexes below one web server; only requests with a password see the second one."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.hashes: dict[str, str] = {}
        self.add("first", "apple", "from the first index")
        self.add("first", "plum", "never installed")
        self.add("second", "pear", "from the second index")
        # A package of the same name in the other index, which nobody may install.
        self.add("first", "pear", "from the wrong index")

        class Handler(http.server.SimpleHTTPRequestHandler):
            """Files, the second index for those who know the password."""

            def do_GET(self) -> None:
                """Answer one request."""
                wanted = "Basic " + base64.b64encode(b"me:word").decode()
                if self.path.startswith("/second/") and self.headers.get("Authorization") != wanted:
                    self.send_error(401)
                    return
                super().do_GET()

            def log_message(self, *words: t.Any) -> None:
                """Say nothing."""

        handler = functools.partial(Handler, directory=str(root))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"127.0.0.1:{self.server.server_port}"

    def add(self, index: str, name: str, text: str) -> None:
        """Put a package into an index; the hash of the first of a name is the one that locks have."""
        folder = self.root / index / name
        folder.mkdir(parents=True)
        wheel = folder / f"{name}-1.0-py3-none-any.whl"
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}.py", f"TEXT = {text!r}\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        (folder / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>\n')
        self.hashes.setdefault(name, "sha256:" + hashlib.sha256(wheel.read_bytes()).hexdigest())


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> c.Iterator[Indexes]:
    """The indexes, served."""
    made = Indexes(tmp_path_factory.mktemp("indexes"))
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a virtual environment, which the script goes on with."""
    made = tmp_path_factory.mktemp("room")
    venv.create(made / "venv", with_pip=True)
    return made


def lock(indexes: Indexes) -> dict[str, t.Any]:
    """A lock whose second package comes from the second index, which has another name outside."""
    sources = [
        {"name": "first", "url": f"http://{indexes.address}/first/", "verify_ssl": True},
        {"name": "second", "url": "https://${NAME}:${WORD}@second.example/simple", "verify_ssl": True},
    ]
    known = indexes.hashes
    return {
        "_meta": {"requires": {"python_version": "3"}, "sources": sources},
        "default": {
            "apple": {"version": "==1.0", "hashes": [known["apple"]], "index": "first"},
            "pear": {
                "version": "==1.0",
                "hashes": [known["pear"]],
                "index": "second",
                "markers": "python_version > '3'",
            },
        },
    }


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
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_each_package_of_a_lock_comes_from_its_own_index(indexes: Indexes, room: pathlib.Path) -> None:
    done = install(room, indexes, {"pipfile_lock": lock(indexes)})
    assert done.returncode == 0, done.stderr
    assert "word" not in done.stdout + done.stderr
    program = "import apple, pear; print(apple.TEXT); print(pear.TEXT)"
    seen = subprocess.run([room / "venv/bin/python", "-c", program], capture_output=True, text=True, check=True)
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
