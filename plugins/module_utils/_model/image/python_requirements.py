# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pipfile, Pipfile.lock and pyproject.toml as lines of requirements files.

pip and uv both install requirements files with hashes, so a lock needs no further tool in the image. Neither can tie
one package of a file to one index; that is why a lock becomes one group for each index it names. What a requirement, a
marker and a version are is left to the library packaging, as it is by pip.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import tomllib
import traceback
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Index, password_in
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields

DEFAULT_SOURCE: Data = {"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": True}

_ENTRY_KEYS = ("version", "hashes", "markers", "index", "extras")
_ELSEWHERE = ("git", "hg", "svn", "bzr", "path", "file", "editable", "url")
_PIPFILE_TABLES = ("source", "packages", "dev-packages", "requires", "pipenv", "scripts", "default", "develop")
_HASH = re.compile(r"[a-z0-9]+:[0-9a-f]+")
_URL = re.compile(r"(?:https?|file)://[!-~]+")
# Quoted parts of a marker may hold anything; in a requirements file an option, a comment or a second line would begin.
_ONE_LINE = re.compile(r"(?:(?! [-#])[ -\[\]-~])+")

PACKAGING_IMPORT_ERROR: str | None = None
try:
    from packaging.markers import Marker
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
except ImportError:
    PACKAGING_IMPORT_ERROR = traceback.format_exc()


@dataclasses.dataclass(frozen=True, slots=True)
class RequirementGroup:
    """Lines of one requirements file and the indexes they may come from; none is what the base is set up for."""

    lines: tuple[str, ...]
    indexes: tuple[Index, ...]
    hashed: bool = False


def locked_groups(lock: Mapping[str, t.Any], indexes: Sequence[Index], where: str) -> tuple[RequirementGroup, ...]:
    """The groups of a Pipfile.lock; each entry is pinned and has hashes.

    An index of the stack stands in for the lock's source of the same name. An entry that names no source is looked
    for in all of them, which its hashes make safe.
    """
    fields = Fields(lock, where)
    sources = _sources(fields.mapping("_meta").get("sources") or [DEFAULT_SOURCE], indexes, f"{where}: _meta.sources")
    return _groups(fields.mapping("default"), sources, f"{where}: default", hashed=True)


def pipfile_groups(pipfile: Mapping[str, t.Any], indexes: Sequence[Index], where: str) -> tuple[RequirementGroup, ...]:
    """The groups of a Pipfile that has no lock."""
    fields = Fields(pipfile, where)
    given = fields.sequence("source")
    sources = _sources(given, indexes, f"{where}: source") if given else tuple(indexes)
    return _groups(fields.mapping("packages"), sources, f"{where}: packages", hashed=False)


def check_lock(pipfile: Mapping[str, t.Any], lock: Mapping[str, t.Any], where: str) -> None:
    """Refuse a lock that was made from another Pipfile; its _meta.hash is over the Pipfile's content."""
    fields = Fields(pipfile, f"{where}: pipfile")
    content: Data = {
        "_meta": {"sources": fields.sequence("source") or [DEFAULT_SOURCE], "requires": fields.mapping("requires")},
        "default": fields.mapping("packages"),
        "develop": fields.mapping("dev-packages"),
    }
    content.update({name: table for name, table in pipfile.items() if name not in _PIPFILE_TABLES})
    wanted = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    meta = Fields(Fields(lock, f"{where}: pipfile_lock").mapping("_meta"), f"{where}: pipfile_lock: _meta")
    found = meta.mapping("hash").get("sha256")
    if found != wanted:
        cause = f"its hash says {found}, the Pipfile given has {wanted}; lock again or leave out the Pipfile"
        raise BadInput("use", f"{where}: pipfile_lock", cause)


def python_of_pipfile(document: Mapping[str, t.Any], where: str) -> str | None:
    """The Python that a Pipfile, or a lock below _meta, asks for, as a version specifier."""
    holder = Fields(document, where).mapping("_meta") if "_meta" in document else document
    fields = Fields(Fields(holder, where).mapping("requires"), f"{where}: requires")
    full, short = fields.text("python_full_version"), fields.text("python_version")
    version = full or short
    if version is None or version == "*":
        return None
    wanted = f"=={version}" if full else f"=={version}.*"
    if not _is_read("versions", wanted):
        raise fields.fail("python_version", f"{version!r} is no version of Python")
    return wanted


def pyproject_lines(text: str, extras: Sequence[str], where: str) -> tuple[tuple[str, ...], str | None]:
    """The dependencies of a pyproject's [project] table with those of some extras, and the Python it asks for."""
    document = Fields(tomllib.loads(text), where)
    if document.get("project") is None:
        raise document.fail("project", "the table is missing; dependencies are read from [project] only")
    project = Fields(document.get("project"), f"{where}: project")
    if "dependencies" in project.sequence("dynamic"):
        raise project.fail("dynamic", "dependencies are computed by the project's build; list them in [project]")
    tools = Fields(Fields(document.mapping("tool"), f"{where}: tool").mapping("uv"), f"{where}: tool.uv")
    if tools.mapping("sources"):
        raise tools.fail("sources", "they cannot be used here; write the source into the dependency or use an index")
    lines = _requirement_lines(project, "dependencies", project.sequence("dependencies"))
    optional = Fields(project.mapping("optional-dependencies"), f"{where}: project.optional-dependencies")
    for extra in extras:
        if extra not in optional.data:
            raise optional.fail(extra, f"there is no such extra; known are {', '.join(optional.data) or 'none'}")
        lines += _requirement_lines(optional, extra, optional.sequence(extra))
    wanted = project.text("requires-python")
    if wanted is not None and not _is_read("versions", wanted):
        raise project.fail("requires-python", f"{wanted!r} is no version specifier")
    return tuple(dict.fromkeys(lines)), wanted


def _is_read(what: t.Literal["requirement", "marker", "versions"], text: str) -> bool:
    """Whether packaging can read a text that stays one part of one line in a requirements file."""
    if PACKAGING_IMPORT_ERROR is not None:
        raise MissingLibrary("packaging", PACKAGING_IMPORT_ERROR)
    readers: dict[str, t.Callable[[str], object]]
    readers = {"requirement": Requirement, "marker": Marker, "versions": SpecifierSet}
    try:
        readers[what](text)
    except ValueError:
        return False
    return _ONE_LINE.fullmatch(text) is not None


def _is_name(text: t.Any) -> bool:
    """Whether a text is the name of a package or an extra, and nothing more."""
    return isinstance(text, str) and _is_read("requirement", text) and Requirement(text).name == text


def _requirement_lines(fields: Fields, key: str, values: Sequence[t.Any]) -> list[str]:
    """Requirements as lines; what would be an option or a second line is refused."""
    for index, value in enumerate(values):
        if not isinstance(value, str) or not _is_read("requirement", value):
            raise fields.fail(f"{key}[{index}]", f"{value!r} is no requirement")
    return list(values)


def _sources(given: t.Any, indexes: Sequence[Index], where: str) -> tuple[Index, ...]:
    """The sources of a Pipfile or a lock, each replaced by the stack's index of the same name where there is one."""
    if not isinstance(given, list):
        raise BadInput("read", where, f"a list is needed, this is a {type(given).__name__}")
    own = {index.name: index for index in indexes}
    found: dict[str, Index] = {}
    for number, data in enumerate(given):
        fields = Fields(data, f"{where}[{number}]")
        name = fields.text("name") or f"source{number}"
        found[name] = own[name] if name in own else _source(fields, name)
    return tuple(found.values()) + tuple(index for index in indexes if index.name not in found)


def _source(fields: Fields, name: str) -> Index:
    """A source whose URL can be read by anyone."""
    url = fields.required_text("url")
    if "$" in url or password_in(url):
        raise fields.fail("url", f"it needs a secret; give python.indexes an index called {name} with that secret")
    if not _URL.fullmatch(url):
        raise fields.fail("url", f"{url!r} is no URL of http, https or file")
    verify = fields.get("verify_ssl") is None or fields.flag("verify_ssl")
    return Index(name=name, url=url, verify=verify)


def _groups(
    entries: Mapping[str, t.Any], sources: tuple[Index, ...], where: str, *, hashed: bool
) -> tuple[RequirementGroup, ...]:
    """Entries by the index they are tied to, those that are free first."""
    known = {index.name: index for index in sources}
    lines: dict[str | None, list[str]] = {None: []}
    for name, data in sorted(entries.items()):
        fields = Fields({"version": data} if isinstance(data, str) else data, f"{where}.{name}")
        line = _entry_line(name, fields, hashed=hashed)
        tied = fields.text("index")
        if tied is not None and tied not in known:
            raise fields.fail("index", f"there is no source called {tied}; known are {', '.join(known) or 'none'}")
        lines.setdefault(tied, []).append(line)
    return tuple(
        RequirementGroup(tuple(group), sources if tied is None else (known[tied],), hashed)
        for tied, group in lines.items()
        if group
    )


def _entry_line(name: str, fields: Fields, *, hashed: bool) -> str:
    """One package as a requirement."""
    for key in _ELSEWHERE:
        if fields.get(key) is not None:
            cause = "it comes from a repository, a path or a URL, which cannot be checked by a hash of a release"
            raise fields.fail(key, f"{cause}; lock a released version")
    fields.only(_ENTRY_KEYS)
    if not _is_name(name):
        raise BadInput("read", fields.where, f"{name!r} is no name of a package")
    extras = fields.sequence("extras")
    if not all(_is_name(extra) for extra in extras):
        raise fields.fail("extras", f"{extras!r} are no names of extras")
    parts = [name + (f"[{','.join(extras)}]" if extras else "") + _version(fields, hashed=hashed)]
    if (marker := fields.text("markers")) is not None:
        if not _is_read("marker", marker):
            raise fields.fail("markers", f"{marker!r} is no marker")
        parts.append(f"; {marker}")
    if hashed:
        parts += [f"--hash={digest}" for digest in _hashes(fields)]
    return " ".join(parts)


def _version(fields: Fields, *, hashed: bool) -> str:
    """The versions that are accepted: a pin in a lock, anything in a Pipfile."""
    version = fields.text("version") or "*"
    if version == "*" and not hashed:
        return ""
    pinned = version.startswith("==") and "," not in version
    if not _is_read("versions", version) or (hashed and not pinned):
        raise fields.fail("version", f"{version!r} is no {'pin such as ==1.2' if hashed else 'version specifier'}")
    return version


def _hashes(fields: Fields) -> list[str]:
    """The hashes of an entry, at least one."""
    hashes = fields.sequence("hashes")
    if not hashes:
        raise fields.fail("hashes", "there are none; a lock without hashes pins nothing")
    if any(not isinstance(digest, str) or not _HASH.fullmatch(digest) for digest in hashes):
        raise fields.fail("hashes", f"{hashes!r} are no hashes")
    return sorted(hashes)
