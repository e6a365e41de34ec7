# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An image made from bytes: equal every time, and such that tools can read it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

from ansible_collections.muster.kube.plugins.module_utils._model.image.image_archive import (
    ArchiveFile,
    build_config,
    build_image,
    build_tar,
)

FILES = [ArchiveFile("pause", b"program", 0o755), ArchiveFile("etc/name", "ä\n".encode())]


def content(archive, name):
    return archive.extractfile(name).read()


def test_equal_input_gives_equal_bytes():
    assert build_image("a:1", FILES, "x86_64", ["/pause"]) == build_image("a:1", FILES, "x86_64", ["/pause"])


def test_the_parts_of_an_image_name_each_other_by_digest():
    with tarfile.open(fileobj=io.BytesIO(build_image("localhost/a:1", FILES, "x86_64", ["/pause"]))) as archive:
        (image,) = json.loads(content(archive, "manifest.json"))
        config = json.loads(content(archive, image["Config"]))
        layer = content(archive, image["Layers"][0])
        assert image["Config"] == hashlib.sha256(content(archive, image["Config"])).hexdigest() + ".json"
    assert image["RepoTags"] == ["localhost/a:1"]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert config["config"]["Cmd"] == ["/pause"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        found = {entry.name: (entry.mode, files.extractfile(entry).read()) for entry in files}
    assert found == {"pause": (0o755, b"program"), "etc/name": (0o644, "ä\n".encode())}


def test_architectures_have_the_names_images_use():
    names = {
        machine: json.loads(build_config("0", machine, []))["architecture"] for machine in ("x86_64", "aarch64", "z")
    }
    assert names == {"x86_64": "amd64", "aarch64": "arm64", "z": "z"}


def test_a_tar_holds_nothing_of_the_moment_or_the_user():
    with tarfile.open(fileobj=io.BytesIO(build_tar(FILES))) as archive:
        assert {(entry.mtime, entry.uid, entry.gid, entry.uname) for entry in archive} == {(0, 0, 0, "")}
