# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images for pods that really run: made from the machine's own package sources, kept in the cache, pushed when asked.

No image comes from outside. The Debian ones are made by mmdebstrap once per list of packages, the small one is busybox,
and one in between is busybox and python3: each build and each push reads an image several times, so its size matters.
Operators have images of nothing but their static program, as their makers build them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._host.files import exclusive
from ansible_collections.muster.kube.plugins.module_utils._model.image.image_archive import build_config, build_manifest
from ansible_collections.muster.kube.tests.support.shared_cluster import cache_directory

# Raised when the way an image is made changes.
RECIPE = 1
SHELL_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOCK_SECONDS = 900.0
PROGRAMS = ("mmdebstrap", "skopeo", "busybox")
# Manifests of operators ask for a user that is not root, and the kubelet believes in numbers only.
ORDINARY_USER = "65532"


@dataclasses.dataclass(frozen=True)
class ImageRecipe:
    """One Debian image."""

    name: str
    packages: tuple[str, ...]
    variant: str = "minbase"
    # Further names of busybox.
    links: tuple[str, ...] = ()


BASE = ImageRecipe("base", ("ca-certificates", "python3", "python3-pip", "python3-venv"))
BUILDER = ImageRecipe("builder", ("buildah", "ca-certificates"))
DNF = ImageRecipe("dnf", ("ca-certificates", "dnf", "python3", "rpm"))
# Its packages are only unpacked; busybox is the rest of the system.
PYTHON = ImageRecipe("python", ("python3", "python3-venv"), "extract", ("usr/bin/env",))
# What unpacked packages bring and no program needs, but for the wheels of which new virtual environments get their pip.
NEEDLESS = ("./usr/share/", "./dev/", "./tmp/")
NEEDED = "./usr/share/python-wheels/"


def base_image(registry: str) -> str:
    """Debian with python3, pip and venv, in the registry."""
    return _pushed(registry, BASE.name, str(_ensure_debian(BASE)))


def builder_image(registry: str) -> str:
    """Debian with buildah, in the registry."""
    return _pushed(registry, BUILDER.name, str(_ensure_debian(BUILDER)))


def dnf_image(registry: str) -> str:
    """Debian with dnf and an empty database of rpm, in the registry."""
    return _pushed(registry, DNF.name, str(_ensure_debian(DNF)))


def python_image(registry: str) -> str:
    """Nothing but busybox and a python3 that can make virtual environments, in the registry."""
    return _pushed(registry, PYTHON.name, str(_ensure_debian(PYTHON)))


def busybox_image(registry: str) -> str:
    """Nothing but busybox: a plain sh and no python3, in the registry."""
    return _pushed(registry, "busybox", str(_ensure_busybox()))


def program_image(registry: str, name: str, program: pathlib.Path, place: str) -> str:
    """Nothing but one static program at its place, run by an ordinary user, in the registry.

    The program is one that was built into the cache: the directory it lies in says of what.
    """
    return _pushed(registry, name, str(_ensure_program(name, program, place)))


@functools.cache
def _pushed(registry: str, name: str, layout: str) -> str:
    """Push an image once in this process; the tag is the key under which it is kept."""
    reference = f"{registry}/{name}:{layout.rpartition('-')[2]}"
    _run(["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{layout}", f"docker://{reference}"])
    return reference


def forget_pushed() -> None:
    """A registry is gone, and with it what was pushed."""
    _pushed.cache_clear()


def _ensure_debian(recipe: ImageRecipe) -> pathlib.Path:
    """The image of a recipe in the cache, made when it is not there."""
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    key = _key([recipe.name, suite, *recipe.packages, *recipe.links])

    def make_layer(target: pathlib.Path) -> None:
        """Let mmdebstrap install the packages."""
        sources = target.with_name("sources")
        sources.write_text(debian_sources(_apt_files(), suite), encoding="utf-8")
        _run(
            [
                *("mmdebstrap", "--quiet", "--mode=root", f"--variant={recipe.variant}", "--format=tar"),
                f"--include={','.join(recipe.packages)}",
                *(f"--aptopt={option}" for option in _apt_options()),
                *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")),
                *(suite, str(target), str(sources)),
            ],
            SOURCE_DATE_EPOCH="1767225600",
        )
        if recipe.variant == "extract":
            _complete(target, recipe.links)

    return _ensure_layout(f"{recipe.name}-{key}", make_layer, ["/bin/bash"])


def _ensure_busybox() -> pathlib.Path:
    """The image of busybox in the cache, made when it is not there."""
    content = pathlib.Path(_busybox()).read_bytes()
    key = _key(["busybox", hashlib.sha256(content).hexdigest()])

    def make_layer(target: pathlib.Path) -> None:
        """Only busybox."""
        with tarfile.open(target, "w") as archive:
            _add_busybox(archive)

    return _ensure_layout(f"busybox-{key}", make_layer, ["/bin/sh"])


def _ensure_program(name: str, program: pathlib.Path, place: str) -> pathlib.Path:
    """The image of one program in the cache, made when it is not there."""
    key = _key(["program", program.parent.name, program.name, place])

    def make_layer(target: pathlib.Path) -> None:
        """Only the program."""
        with tarfile.open(target, "w") as archive:
            _add(archive, place.lstrip("/"), program.read_bytes(), 0o755)

    return _ensure_layout(f"{name}-{key}", make_layer, [place], ORDINARY_USER)


def _busybox() -> str:
    """Where the program is."""
    return shutil.which("busybox") or "busybox"


def _add_busybox(archive: tarfile.TarFile, taken: t.Collection[str] = (), links: t.Sequence[str] = ()) -> None:
    """The program with a link for each of its names that is not taken, and the few files that everything needs."""
    _add(archive, "bin/busybox", pathlib.Path(_busybox()).read_bytes(), 0o755)
    applets = sorted({*_run([_busybox(), "--list"]).split()} - {"busybox"})
    for name in (*(f"bin/{applet}" for applet in applets), *links):
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
        if link.name not in taken:
            archive.addfile(link)
    _add(archive, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n", 0o644)
    folder = tarfile.TarInfo("tmp")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
    archive.addfile(folder)


def _complete(layer: pathlib.Path, links: t.Sequence[str]) -> None:
    """Make a system of unpacked packages: what no program needs goes, busybox comes."""
    whole = layer.rename(layer.with_name("whole.tar"))
    with tarfile.open(whole) as source, tarfile.open(layer, "w") as target:
        for entry in source:
            if not f"{entry.name}/".startswith(NEEDLESS) or f"{entry.name}/".startswith(NEEDED):
                target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
        _add_busybox(target, {entry.name.removeprefix("./") for entry in source}, links)


def _ensure_layout(
    name: str, make_layer: t.Callable[[pathlib.Path], None], command: t.Sequence[str], user: str = ""
) -> pathlib.Path:
    """An image as an OCI directory with compressed layers, which is pushed in a moment; made by one process only."""
    place = cache_directory() / "images" / name
    if place.is_dir():
        return place
    with exclusive(place.parent / ".lock", "the images of the tests", LOCK_SECONDS, print):
        if place.is_dir():
            return place
        with tempfile.TemporaryDirectory(prefix=".making-", dir=place.parent) as folder:
            work = pathlib.Path(folder)
            make_layer(work / "layer.tar")
            archive = _pack(work / "layer.tar", command, user)
            _run(["skopeo", "copy", "--quiet", f"docker-archive:{archive}", f"oci:{work / 'oci'}"])
            (work / "oci").rename(place)
    return place


def _pack(layer: pathlib.Path, command: t.Sequence[str], user: str) -> pathlib.Path:
    """A layer with its configuration and list of images as one archive."""
    with layer.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    config = build_config(digest, platform.machine(), command, [SHELL_PATH])
    if user:
        wanted = json.loads(config)
        wanted["config"]["User"] = user
        config = json.dumps(wanted, sort_keys=True).encode()
    config_name, manifest = build_manifest("localhost/test:latest", config, f"{digest}.tar")
    place = layer.with_name("image.tar")
    with tarfile.open(place, "w") as archive:
        _add(archive, config_name, config, 0o644)
        _add(archive, "manifest.json", manifest, 0o644)
        archive.add(layer, f"{digest}.tar")
    return place


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """One file of an archive."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _key(parts: t.Sequence[str]) -> str:
    """A short name that changes with everything that goes into an image."""
    return hashlib.sha256(json.dumps([RECIPE, platform.machine(), *parts]).encode()).hexdigest()[:16]


def debian_sources(texts: t.Iterable[str], suite: str) -> str:
    """The package sources of this machine that belong to its Debian release, as one file of stanzas."""
    stanzas = []
    for text in texts:
        for stanza in re.split(r"\n\s*\n", text):
            lines = [line for line in stanza.splitlines() if not line.lstrip().startswith("#")]
            fields = dict(line.split(":", 1) for line in lines if ":" in line and line[0].isalpha())
            suites = fields.get("Suites", "").split()
            if suites and all(re.fullmatch(rf"{re.escape(suite)}(-.*)?", name) for name in suites):
                stanzas.append("\n".join(lines))
            stanzas.extend(filter(None, (_stanza(line, suite) for line in lines)))
    return "\n\n".join(stanzas) + "\n"


def _stanza(line: str, suite: str) -> str | None:
    """A source in the one-line form, as a stanza; None for anything else."""
    found = re.fullmatch(rf"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+({re.escape(suite)}(?:-\S+)?)\s+(.+)", line.strip())
    if found is None:
        return None
    options, address, name, components = found.groups()
    keys = [option.removeprefix("signed-by=") for option in (options or "").split() if option.startswith("signed-by=")]
    lines = ["Types: deb", f"URIs: {address}", f"Suites: {name}", f"Components: {components}"]
    return "\n".join([*lines, *(f"Signed-By: {key}" for key in keys)])


def _apt_files() -> list[str]:
    """The files in which this machine keeps its package sources."""
    folder = pathlib.Path("/etc/apt")
    paths = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    return [
        path.read_text(encoding="utf-8") for path in paths if path.suffix in (".list", ".sources") and path.is_file()
    ]


def _apt_options() -> list[str]:
    """How this machine reaches its package sources."""
    kept = re.compile(r"Acquire::(http|https|Check-Valid-Until|Retries)\b.* \"[^\"]+\";")
    return [line for line in _run(["apt-config", "dump"]).splitlines() if kept.match(line)]


def _run(command: t.Sequence[str], **environment: str) -> str:
    """A program that must work; what it printed."""
    ended = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if ended.returncode:
        raise AssertionError(f"{command[0]} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout
