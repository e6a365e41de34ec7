# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts: from a folder, an archive, a registry or a repository, with the digest that was asked for."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import hashlib
import pathlib
import re
import tarfile
import tempfile
import typing as t
import zlib

from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import (
    HelmProgram,
    is_reference,
)
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

_ABOUT = "Chart.yaml"
_MOST_ABOUT = 1024 * 1024
_TOLD_DIGEST = re.compile(r"^Digest: (sha256:[0-9a-f]{64})$", re.MULTILINE)
# A chart of a repository that helm knows by name; anything that looks more like a file is one.
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A chart that is on this machine now."""

    path: str
    name: str
    version: str
    app_version: str
    digest: str


@contextlib.contextmanager
def located_chart(helm: HelmProgram, source: HelmSource) -> t.Iterator[Chart]:
    """The chart of a source for as long as the block lasts; one with another digest is refused."""
    source.check()
    path = pathlib.Path(source.chart)
    if not is_reference(source) and path.exists():
        yield _checked(source, path.absolute(), set())
        return
    if not is_reference(source) and not _ALIAS.fullmatch(source.chart):
        raise BadInput("read", f"component {source.component}: chart {source.chart}", "there is no such file or folder")
    with tempfile.TemporaryDirectory(prefix="muster-kube-chart-") as folder:
        told = helm.pull(source, folder)
        [archive] = list(pathlib.Path(folder).iterdir())
        yield _checked(source, archive, set(_TOLD_DIGEST.findall(told)))


def _checked(source: HelmSource, path: pathlib.Path, told: collections.abc.Set[str]) -> Chart:
    """What a chart says of itself, after its digest was compared with the one asked for."""
    where = f"component {source.component}: chart {source.chart}"
    try:
        digest = _digest_of_folder(path) if path.is_dir() else f"sha256:{_digest_of_file(path)}"
        if source.digest is not None and source.digest not in {digest, *told}:
            raise BadInput("use", where, f"its digest is {digest} and not {source.digest}")
        about = _read_about(path, where)
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise BadInput("read", where, str(error)) from error
    version = str(about.get("version") or "")
    if source.version is not None and not told and not is_reference(source) and version != source.version:
        raise BadInput("use", where, f"its version is {version} and not {source.version}")
    return Chart(str(path), str(about.get("name") or ""), version, str(about.get("appVersion") or ""), digest)


def _digest_of_file(path: pathlib.Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest_of_folder(path: pathlib.Path) -> str:
    """One digest for the names and contents of all files."""
    files = sorted(item for item in path.rglob("*") if item.is_file())
    lines = [f"{_digest_of_file(item)}  {item.relative_to(path).as_posix()}\n" for item in files]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _read_about(path: pathlib.Path, where: str) -> collections.abc.Mapping[str, t.Any]:
    """The chart's own description, which lies at the top of its folder or archive."""
    text = (path / _ABOUT).read_bytes() if path.is_dir() else _read_from_archive(path, where)
    documents = load_yaml(text, f"{where}: {_ABOUT}")
    if len(documents) != 1 or not isinstance(documents[0], collections.abc.Mapping):
        raise BadInput("read", f"{where}: {_ABOUT}", "it is no mapping")
    return documents[0]


def _read_from_archive(path: pathlib.Path, where: str) -> bytes:
    """The description in an archive, in which everything lies in one folder."""
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            folder, _slash, name = member.name.removeprefix("./").partition("/")
            if folder and name == _ABOUT and member.isfile() and member.size <= _MOST_ABOUT:
                stream = archive.extractfile(member)
                if stream is not None:
                    return stream.read()
    raise BadInput("read", where, f"it is no chart: there is no {_ABOUT} in it")
