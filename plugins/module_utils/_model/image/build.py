# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A build: which image is wanted under which name, how it is to be built, and the identity that follows from it."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack, stack_data
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import HardwareAsk
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json

Engine = t.Literal["auto", "job", "podman", "none"]
Tier = t.Literal["userns", "baseline", "unconfined", "privileged"]

ENGINES: tuple[Engine, ...] = t.get_args(Engine)
# From the strictest to the last resort.
TIERS: tuple[Tier, ...] = t.get_args(Tier)
# What is tried when nobody names a tier. A privileged pod owns its node, so somebody has to ask for it.
AUTO_TIERS: tuple[Tier, ...] = ("userns", "baseline", "unconfined")
# One release; sites name their own image by digest, and results tell the digest that was used.
BUILDER_IMAGE = "quay.io/buildah/stable:v1.43.0"
BUILD_LABEL = "muster.kube/build"
PROBE_LABEL = "muster.kube/build-probe"
IMAGE_LABEL = "muster.kube.spec-hash"

# Files of a stack up to this size are kept in the record word for word, larger ones by their digest.
KEPT_BYTES = 256 * 1024

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
# Only what is followed by a path can have a port; else it would be a tag.
_REPOSITORY = re.compile(rf"{_PART}|{_HOST}(?::[0-9]+)?(?:/{_PART})+")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_REGISTRY = re.compile(r"[A-Za-z0-9*](?:[A-Za-z0-9._*-]*[A-Za-z0-9])?(?::[0-9]+)?(?:/[a-z0-9._/-]+)?")


@dataclasses.dataclass(frozen=True, slots=True)
class BuildSpec:
    """What is wanted: a stack as an image of a repository. spec_hash is that of the stack."""

    stack: Stack
    repository: str
    spec_hash: str
    tag: str | None = None

    @property
    def reference(self) -> str:
        """The image's name with its tag, which by default follows from the stack."""
        return f"{self.repository}:{self.tag or f'sha-{self.spec_hash[:20]}'}"

    @property
    def identity(self) -> str:
        """A hash over the stack and the name; the same is never built twice."""
        return hashlib.sha256(canonical_json([self.spec_hash, self.reference]).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the record."""
        return f"build-{self.identity[:10]}"

    def as_data(self) -> Data:
        """What the record keeps."""
        stack = stack_data(self.stack)
        if len(canonical_json(stack)) > KEPT_BYTES:
            stack["files"] = [
                {
                    "path": file.path,
                    "mode": file.mode,
                    "bytes": len(file.content),
                    "sha256": hashlib.sha256(file.content).hexdigest(),
                }
                for file in self.stack.files
            ]
        return {"image": self.reference, "spec_hash": self.spec_hash, "stack": stack}


@dataclasses.dataclass(frozen=True, slots=True)
class BuildSettings:
    """How and where it is built; nothing here changes what comes out."""

    tier: Tier | None = None
    builder_image: str = BUILDER_IMAGE
    requests: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    limits: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    hardware: HardwareAsk = dataclasses.field(default_factory=HardwareAsk)
    tolerations: tuple[Data, ...] = ()
    service_account: str | None = None
    pull_secret: str | None = None
    push_secret: str | None = None
    insecure_registries: tuple[str, ...] = ()
    host_network: bool = False
    cache: str | None = None
    push: bool = True
    timeout: float = 3600.0
    start_timeout: float = 600.0


def check_repository(image: str, where: str) -> str:
    """The name of a repository, without tag and digest."""
    if not _REPOSITORY.fullmatch(image) or len(image) > 255:
        cause = f"{image!r} is no repository such as registry.example.com/team/name (the tag is an option of its own)"
        raise BadInput("read", where, cause)
    return image


def check_tag(tag: str | None, where: str) -> str | None:
    """The tag of an image."""
    if tag is not None and not _TAG.fullmatch(tag):
        raise BadInput("read", where, f"{tag!r} is no tag")
    return tag


def check_registries(registries: t.Sequence[str], where: str) -> tuple[str, ...]:
    """Names of registries; they are written into a configuration file of the builder."""
    for registry in registries:
        if not _REGISTRY.fullmatch(registry):
            raise BadInput("read", where, f"{registry!r} is no registry such as registry.example.com:5000")
    return tuple(registries)


def parse_packages(text: str) -> Data:
    """The packages of an image, from what its package managers printed; None for a manager it does not have."""
    found: dict[str, list[Data] | None] = {"dpkg": None, "rpm": None, "apk": None, "pip": None}
    manager = ""
    for line in text.splitlines():
        if line.startswith("@") and line[1:] in found:
            manager = line[1:]
            found[manager] = []
            continue
        entry = _package(manager, line)
        listed = found.get(manager)
        if entry is not None and listed is not None and entry not in listed:
            listed.append(entry)
    return {
        name: None if listed is None else sorted(listed, key=lambda item: (item["name"], item["version"]))
        for name, listed in found.items()
    }


def _package(manager: str, line: str) -> Data | None:
    """One line of a package manager; None for one that tells of nothing installed."""
    words = line.split()
    if manager == "dpkg":
        return {"name": words[1], "version": words[2]} if len(words) == 3 and words[0][1:2] == "i" else None
    if manager == "apk":
        match = re.fullmatch(r"(.+)-([0-9][^-]*-r[0-9]+)", line.strip())
        return {"name": match[1], "version": match[2]} if match else None
    if len(words) != 2:
        return None
    return {"name": words[0], "version": words[1].removeprefix("0:") if manager == "rpm" else words[1]}
