# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Dockerfile and build context of a stack: the same stack always gives the same bytes.

Files travel as files of the context. The only texts of the user in the Dockerfile are names of a known form, paths,
and the values of variables and labels, which are quoted here.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t
import urllib.parse
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.image.python_requirements import (
    RequirementGroup,
    check_lock,
    locked_groups,
    pipfile_groups,
    pyproject_lines,
    python_of_pipfile,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import (
    BuildSecret,
    File,
    Index,
    PythonStack,
    Stack,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.image.install_scripts import (
    BUILD_FOLDER,
    NATIVE_SH,
    PYTHON_SH,
    SECRETS_SH,
    VENV_FOLDER,
)

# Part of every spec_hash: a change of what the same stack is built into must change it.
GENERATOR_VERSION = "1"

# Uses of secrets that concern one step only.
_PYTHON_USES = ("pip_config", "uv_config")
_NATIVE_USES = ("native_config",)
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ESCAPED_IN_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"', "$": "\\$"})
_ESCAPED_IN_PATH = str.maketrans({character: "\\" + character for character in "\\$\"'`"})


@dataclasses.dataclass(frozen=True, slots=True)
class ContextFile:
    """A file of the build context; mode is octal."""

    name: str
    content: bytes
    mode: str = "0644"


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """Everything a builder needs but secrets: the Dockerfile and the files beside it."""

    dockerfile: str
    files: tuple[ContextFile, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Install:
    """One go of pip or uv: requirements files and the indexes they come from."""

    texts: tuple[str, ...]
    indexes: tuple[Index, ...]
    hashed: bool = False


def build_context(stack: Stack) -> Context:
    """The Dockerfile of a stack and the files it copies."""
    if stack.dockerfile is not None:
        return Context(stack.dockerfile, tuple(ContextFile(file.path, file.content, file.mode) for file in stack.files))
    if stack.base is None:
        raise BadInput("write a Dockerfile for", "the stack", "it has no base")
    platform = f"--platform={stack.platform} " if stack.platform else ""
    lines = [f"FROM {platform}{stack.base}"]
    files: list[ContextFile] = []
    native = bool(stack.packages or stack.update)
    if native or stack.python is not None:
        lines.append("USER 0")
    lines += [f"ENV {name}={quoted(value)}" for name, value in stack.environment]
    lines += _copies(stack.files, files, early=True)
    if native:
        lines += _native_steps(stack, files)
    if stack.python is not None:
        lines += _python_steps(stack, stack.python, files)
    lines += _copies(stack.files, files, early=False)
    if stack.workdir is not None:
        lines.append(f"WORKDIR {stack.workdir}")
    lines += [f"LABEL {name}={quoted(value)}" for name, value in stack.labels]
    if stack.user is not None:
        lines.append(f"USER {stack.user}")
    return Context("\n".join(lines) + "\n", tuple(files))


def quoted(value: str) -> str:
    """A value of ENV or LABEL as one word that stands for exactly this value; it has no line break."""
    return f'"{value.translate(_ESCAPED_IN_QUOTES)}"'


def _json_words(words: Sequence[str]) -> str:
    """Arguments in the form that no shell reads."""
    return json.dumps(list(words), ensure_ascii=False)


def _copies(all_files: Sequence[File], files: list[ContextFile], *, early: bool) -> list[str]:
    """Copy instructions for the user's files of one stage; their names in the context are numbers."""
    lines = []
    for number, file in enumerate(all_files, 1):
        if file.before_packages is not early:
            continue
        name = f"files/{number:04}"
        files.append(ContextFile(name, file.content, file.mode))
        owner = f"--chown={file.owner} " if file.owner else ""
        words = _json_words([name, file.path.translate(_ESCAPED_IN_PATH)])
        lines.append(f"COPY {owner}--chmod={file.mode} {words}")
    return lines


def _run(
    stack: Stack,
    files: list[ContextFile],
    own: dict[str, str],
    script: str,
    arguments: Sequence[str],
    needed: Sequence[BuildSecret],
) -> list[str]:
    """Copy a script with its files and run it with the build secrets that it needs; one that is missing is an error.

    What a step installs may read all that is mounted in it, so there is nothing more.
    """
    secrets = "".join(f"{secret.use} {secret.id}\n" for secret in stack.secrets)
    both = {**own, "secrets.sh": SECRETS_SH, "secrets.txt": secrets}
    known = {file.name for file in files}
    names = [f"files/{name}" for name in sorted(both)]
    files += [
        ContextFile(f"files/{name}", both[name].encode()) for name in sorted(both) if f"files/{name}" not in known
    ]
    mounts = "".join(f"--mount=type=secret,id={secret.id},required=true " for secret in needed)
    return [
        f"COPY {_json_words([*names, BUILD_FOLDER + '/'])}",
        f"RUN {mounts}{_json_words(['/bin/sh', f'{BUILD_FOLDER}/{script}', *arguments])}",
    ]


def _native_steps(stack: Stack, files: list[ContextFile]) -> list[str]:
    """Install native packages, and update those of the base."""
    own = {"install-native.sh": NATIVE_SH, "native.txt": _text(stack.packages)}
    of_indexes = {index.secret for index in stack.python.indexes} if stack.python is not None else set()
    needed = [item for item in stack.secrets if item.use not in _PYTHON_USES and item.id not in of_indexes]
    return _run(stack, files, own, "install-native.sh", [stack.package_manager, _yes(stack.update)], needed)


def _python_steps(stack: Stack, python: PythonStack, files: list[ContextFile]) -> list[str]:
    """Install Python packages into a virtual environment and put it first on PATH."""
    steps = _python_installs(python)
    indexes = list(dict.fromkeys([*python.indexes, *(index for step in steps for index in step.indexes)]))
    own = {
        "install-python.sh": PYTHON_SH,
        "python-versions.txt": _text(_python_versions(python)),
        "indexes.txt": _text([_index_line(index) for index in indexes]),
    }
    lines = []
    for number, step in enumerate(steps, 1):
        names = [f"requirements-{number}-{part}.txt" for part in range(1, len(step.texts) + 1)]
        own.update(zip(names, step.texts, strict=True))
        lines.append(f"{'hashed' if step.hashed else 'free'} {_numbers(step.indexes, indexes)} {' '.join(names)}")
    own["steps.txt"] = _text(lines)
    arguments = [python.installer, _yes(python.upgrade_pip), _yes(python.isolated), _numbers(python.indexes, indexes)]
    needed = [item for item in stack.secrets if item.use not in _NATIVE_USES]
    return [
        *_run(stack, files, own, "install-python.sh", arguments, needed),
        f'ENV VIRTUAL_ENV="{VENV_FOLDER}"',
        f'ENV PATH="{VENV_FOLDER}/bin:${{PATH:-{_USUAL_PATH}}}"',
    ]


def _python_installs(python: PythonStack) -> list[_Install]:
    """What is installed in which order: what is pinned by hashes first, all the rest in one go."""
    groups: tuple[RequirementGroup, ...] = ()
    if python.pipfile_lock is not None:
        if python.pipfile is not None:
            check_lock(python.pipfile, python.pipfile_lock, "python")
        groups = locked_groups(python.pipfile_lock, python.indexes, "python: pipfile_lock")
    elif python.pipfile is not None:
        groups = pipfile_groups(python.pipfile, python.indexes, "python: pipfile")
    steps = [_Install((_text(group.lines),), group.indexes, group.hashed) for group in groups]
    rest: list[str] = []
    if python.requirements is not None and "--hash=" in python.requirements:
        # One hash makes pip ask for hashes of everything in the same go.
        steps.append(_Install((_text([python.requirements]),), python.indexes))
    elif python.requirements is not None:
        rest.append(_text([python.requirements]))
    lines = pyproject_lines(python.pyproject, python.extras, "python: pyproject")[0] if python.pyproject else ()
    if lines or python.packages:
        rest.append(_text([*lines, *python.packages]))
    if rest:
        steps.append(_Install(tuple(rest), python.indexes))
    return steps


def _python_versions(python: PythonStack) -> list[str]:
    """The versions of Python that the documents ask for."""
    documents = [(python.pipfile, "python: pipfile"), (python.pipfile_lock, "python: pipfile_lock")]
    wanted = [python_of_pipfile(document, where) for document, where in documents if document is not None]
    if python.pyproject is not None:
        wanted.append(pyproject_lines(python.pyproject, python.extras, "python: pyproject")[1])
    return list(dict.fromkeys(version for version in wanted if version))


def _index_line(index: Index) -> str:
    """An index as the install script reads it."""
    if index.url is None:
        return f"secret {index.secret} -"
    host = "-" if index.verify else urllib.parse.urlsplit(index.url).netloc or "-"
    return f"url {index.url} {host}"


def _numbers(some: Sequence[Index], indexes: Sequence[Index]) -> str:
    """Indexes by their places in the list, counted from 1."""
    return ",".join(str(indexes.index(index) + 1) for index in some) or "-"


def _text(lines: t.Iterable[str]) -> str:
    """Lines of a file, each ended."""
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _yes(flag: bool) -> str:
    """A flag as the install scripts read it."""
    return "yes" if flag else "no"
