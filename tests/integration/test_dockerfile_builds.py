# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generated Dockerfiles built for real by buildah: bytes and values arrive as they are, and secrets stay out.

The base is made of nothing but busybox, so that no network and no other image is needed.
"""

from __future__ import annotations

import base64
import collections.abc as c
import gzip
import json
import os
import pathlib
import random
import shutil
import subprocess
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import run_build
from ansible_collections.muster.kube.tests.support.build_site import build_terms_of

PROGRAMS = ("buildah", "busybox")
SECONDS = 300
BASE = "localhost/muster-tiny"
SECRET = "word-7f3a9c-that-no-layer-may-hold"


def no_cluster() -> t.NoReturn:
    """Nothing here asks one."""
    raise AssertionError("no cluster is needed")


class Builder:
    """buildah with a storage of its own."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.count = 0
        storage = ["--root", str(root / "storage"), "--runroot", str(root / "run"), "--storage-driver", "vfs"]
        self.command = ["buildah", *storage]

    def call(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run one command of buildah."""
        done = subprocess.run(
            [*self.command, *words], capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
        )
        if check and done.returncode:
            raise AssertionError(f"buildah {words[0]}: {done.stderr.decode(errors='replace')}")
        return done

    def build(
        self, stack: dict[str, t.Any], *options: str, tag: str | None = None, check: bool = True
    ) -> tuple[str, subprocess.CompletedProcess[bytes]]:
        """Build a stack; the name of the image and what buildah said."""
        self.count += 1
        folder = self.root / f"context-{self.count}"
        # As a user does it by hand, who has the module write the folder.
        task = {"stack": stack, "image": "localhost/any", "context_dest": str(folder)}
        run_build(no_cluster, build_terms_of(task), lambda _text: None)
        name = tag or f"localhost/muster-{self.count}"
        words = ["build", "--isolation", "chroot", "--pull-never", *options, "-t", name, str(folder)]
        return name, self.call(*words, check=check)

    def container(self, image: str) -> str:
        """A container of an image that was built here."""
        return self.call("from", "--pull-never", image).stdout.decode().strip()

    def tree(self, image: str) -> pathlib.Path:
        """The files of an image."""
        return pathlib.Path(self.call("mount", self.container(image)).stdout.decode().strip())

    def output(self, image: str, *words: str) -> bytes:
        """What a command prints in the image."""
        return self.call("run", "--isolation", "chroot", self.container(image), "--", *words).stdout

    def everything(self, image: str) -> bytes:
        """All layers, unpacked, and the configuration of an image in one heap of bytes."""
        self.count += 1
        folder = self.root / f"pushed-{self.count}"
        self.call("push", image, f"dir:{folder}")
        blobs = [path.read_bytes() for path in sorted(folder.iterdir())]
        return b"\n".join(gzip.decompress(blob) if blob[:2] == b"\x1f\x8b" else blob for blob in blobs)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> c.Iterator[Builder]:
    """A builder that has the base already."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"building images needs root and {', '.join(missing) or 'nothing else'}")
    made = Builder(tmp_path_factory.mktemp("buildah"))
    busybox = pathlib.Path(shutil.which("busybox") or "").read_bytes()
    names = ("cat", "rm", "env", "sha256sum", "sleep")
    links = "".join(f" && /bin/busybox ln -s busybox /bin/{name}" for name in names)
    made.build(
        {
            "dockerfile": "FROM scratch\nCOPY --chmod=0755 programs/busybox /bin/busybox\n"
            "COPY --chmod=0755 programs/busybox /bin/sh\n"
            f'RUN ["/bin/busybox", "sh", "-c", "true{links}"]\nENV PATH="/bin:/sbin"\n',
            "files": [{"path": "programs/busybox", "content_base64": base64.b64encode(busybox).decode()}],
        },
        tag=BASE,
    )
    yield made
    made.call("rm", "--all")
    made.call("rmi", "--all", "--force")


def contents() -> list[bytes]:
    """Contents that quoting would spoil, and random ones."""
    chance = random.Random(int(os.environ.get("MUSTER_SEED", "1")))
    fixed = [
        b"",
        b"no end of line",
        b"\r\n\r\n",
        bytes(range(256)),
        "quotes \" ' ` and né ☃ \u2028\n".encode(),
        b"\xef\xbb\xbf# escape=`\nRUN id\n",
        b"$HOME ${PATH} $(id) `id` \\\n\\",
        b"\0" * 1000,
        b"<<EOF\nFROM scratch\nEOF\n",
    ]
    return fixed + [chance.randbytes(chance.randrange(1, 5000)) for _one in range(8)]


PATHS = ["/odd/two words", "/odd/$HOME", "/odd/\"q\" 'q' `q`", "/odd/back\\slash\\", "/odd/[a]*?{b,c}", "/odd/#c <<EOF"]


def test_any_content_arrives_byte_for_byte(builder: Builder) -> None:
    wanted = {f"/data/{number}": content for number, content in enumerate(contents())}
    wanted.update({path: path.encode() for path in PATHS})
    modes = ["0644", "0600", "0755", "0440"]
    files = [
        {
            "path": path,
            "content_base64": base64.b64encode(content).decode(),
            "mode": modes[number % 4],
            "owner": "7:8" if number % 2 else None,
        }
        for number, (path, content) in enumerate(wanted.items())
    ]
    image, _done = builder.build({"base": BASE, "files": files})
    tree = builder.tree(image)
    for number, (path, content) in enumerate(wanted.items()):
        found = tree / path[1:]
        status = found.stat()
        assert found.read_bytes() == content, path
        assert f"{status.st_mode & 0o7777:04o}" == modes[number % 4]
        assert (status.st_uid, status.st_gid) == ((7, 8) if number % 2 else (0, 0))
    assert sorted(entry.name for entry in (tree / "odd").iterdir()) == sorted(path[5:] for path in PATHS)


def test_values_of_variables_and_labels_arrive_as_written(builder: Builder) -> None:
    chance = random.Random(int(os.environ.get("MUSTER_SEED", "1")))
    letters = "\\\"'$`{}()[]<>|&;#\r\t =,:-*?!%~aZé☃\x01\x7f"
    values = {f"V{number}": "".join(chance.choices(letters, k=chance.randrange(12))) for number in range(60)}
    values.update({"HOME_LIKE": "$HOME ${PATH:-x} \\$y", "END": "back\\", "QUOTES": '"\'"', "EMPTY": ""})
    labels = {f"org.example/l{number}": value for number, value in enumerate(values.values())}
    stack = {"base": BASE, "environment": values, "labels": labels, "workdir": "/work", "user": "12:13"}
    image, _done = builder.build(stack)
    seen = builder.output(image, "/bin/busybox", "cat", "/proc/self/environ").decode().split("\0")
    process = dict(entry.split("=", 1) for entry in seen if entry)
    assert {name: process.get(name) for name in values} == values
    config = json.loads(builder.call("inspect", "--type", "image", image).stdout)["OCIv1"]["config"]
    assert {name: config["Labels"].get(name) for name in labels} == labels
    assert (config["WorkingDir"], config["User"]) == ("/work", "12:13")


APK = """#!/bin/sh
# Stands for a package manager: notes what it was asked for and that it had the secrets.
{
    echo "$*"
    printf %s "$HTTPS_PROXY" | sha256sum
    sha256sum < /run/secrets/repositories
} >> /calls
"""


def test_native_packages_are_installed_with_secrets_that_are_in_no_layer(
    builder: Builder, tmp_path: pathlib.Path
) -> None:
    proxy, repositories = tmp_path / "proxy", tmp_path / "repositories"
    proxy.write_text(f"HTTPS_PROXY=http://{SECRET}@proxy.example\n")
    repositories.write_text(f"https://{SECRET}.example/main\n")
    stack = {
        "base": BASE,
        "packages": ["first", "second"],
        "files": [{"path": "/sbin/apk", "content": APK, "mode": "0755", "before_packages": True}],
        "secrets": [{"id": "proxy", "use": "environment"}, {"id": "repositories", "use": "native_config"}],
    }
    given = [f"--secret=id=proxy,src={proxy}", f"--secret=id=repositories,src={repositories}"]
    image, done = builder.build(stack, *given)
    calls = (builder.tree(image) / "calls").read_text()
    digests = [
        subprocess.run(["sha256sum"], input=text.encode(), capture_output=True, check=True).stdout.decode()
        for text in (f"http://{SECRET}@proxy.example", repositories.read_text())
    ]
    assert calls == f"add --no-cache --repositories-file /run/secrets/repositories first second\n{''.join(digests)}"
    heap = builder.everything(image)
    assert b"muster.kube: native packages by" in heap, "the search does not see into the layers"
    assert SECRET.encode() not in heap
    assert SECRET not in (done.stdout + done.stderr).decode(errors="replace")


def test_a_secret_that_is_missing_ends_the_build(builder: Builder) -> None:
    stack = {"base": BASE, "packages": ["x"], "secrets": [{"id": "proxy", "use": "environment"}]}
    _image, done = builder.build(stack, check=False)
    assert done.returncode != 0
    assert b"no secret with id proxy found" in done.stderr


def test_a_base_without_a_package_manager_or_python_is_told(builder: Builder) -> None:
    for stack, message in (
        ({"base": BASE, "packages": ["x"]}, b"muster.kube: the base image has no package manager that is known"),
        ({"base": BASE, "python": {"packages": ["x"]}}, b"muster.kube: the base image has no python3"),
    ):
        _image, done = builder.build(stack, check=False)
        assert done.returncode != 0
        assert message in done.stdout + done.stderr
