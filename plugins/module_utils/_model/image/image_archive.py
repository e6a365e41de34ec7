# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container image as one file, made from plain bytes: equal input gives equal bytes."""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import io
import json
import tarfile
import typing as t

# Any fixed moment will do; a real one would make every archive different.
CREATED = "2026-01-01T00:00:00Z"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


@dataclasses.dataclass(frozen=True, slots=True)
class ArchiveFile:
    """One file of an archive."""

    name: str
    content: bytes
    mode: int = 0o644


def build_tar(files: collections.abc.Iterable[ArchiveFile]) -> bytes:
    """A tar file without anything of the machine or the moment in it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(file.name)
            entry.size = len(file.content)
            entry.mode = file.mode
            archive.addfile(entry, io.BytesIO(file.content))
    return stream.getvalue()


def build_config(
    layer_digest: str,
    machine: str,
    command: collections.abc.Sequence[str],
    environment: collections.abc.Sequence[str] = (),
) -> bytes:
    """The configuration of an image with one layer; the digest is that of the uncompressed layer."""
    config: dict[str, t.Any] = {
        "architecture": ARCHITECTURES.get(machine, machine),
        "config": {"Cmd": list(command), "Env": list(environment), "WorkingDir": "/"},
        "created": CREATED,
        "history": [{"created": CREATED, "created_by": "muster.kube"}],
        "os": "linux",
        "rootfs": {"diff_ids": [f"sha256:{layer_digest}"], "type": "layers"},
    }
    return json.dumps(config, sort_keys=True).encode()


def build_manifest(reference: str, config: bytes, layer_name: str) -> tuple[str, bytes]:
    """The file name of the configuration, and the list of images that every such archive has."""
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    return name, json.dumps([{"Config": name, "Layers": [layer_name], "RepoTags": [reference]}]).encode()


def build_image(
    reference: str, files: collections.abc.Iterable[ArchiveFile], machine: str, command: collections.abc.Sequence[str]
) -> bytes:
    """A whole image with one small layer, in the archive format that every tool reads."""
    layer = build_tar(files)
    digest = hashlib.sha256(layer).hexdigest()
    config = build_config(digest, machine, command)
    layer_name = f"{digest}.tar"
    config_name, manifest = build_manifest(reference, config, layer_name)
    return build_tar(
        [ArchiveFile(layer_name, layer), ArchiveFile(config_name, config), ArchiveFile("manifest.json", manifest)]
    )
