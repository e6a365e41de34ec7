# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an image holds, read back out of a generated Dockerfile and the files beside it."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import Context
from ansible_collections.muster.kube.tests.support.dockerfile_reader import (
    Unexpected,
    assignment,
    instructions,
    json_words,
    plain_path,
)

BUILD = "/opt/muster/build/"
# Variables that the installation of Python packages needs.
OWN_VARIABLES = ("VIRTUAL_ENV", "PATH")


@dataclasses.dataclass
class Step:
    """One installation of Python packages: lines of requirements, and the URLs of the indexes they come from."""

    hashed: bool
    lines: list[str]
    indexes: list[str]


@dataclasses.dataclass
class Contents:
    """What somebody finds who starts the image."""

    base: str = ""
    user: str | None = None
    workdir: str | None = None
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    files: dict[str, tuple[bytes, str]] = dataclasses.field(default_factory=dict)
    native: list[str] = dataclasses.field(default_factory=list)
    update: bool = False
    python: list[Step] = dataclasses.field(default_factory=list)
    upgrade_pip: bool = False


def image_contents(context: Context) -> Contents:
    """Follow the instructions of a Dockerfile."""
    held = {file.name: file.content for file in context.files}
    there: dict[str, bytes] = {}
    found = Contents()
    for name, rest in instructions(context.dockerfile):
        if name == "FROM":
            found.base = rest
        elif name == "USER":
            found.user = rest
        elif name == "WORKDIR":
            found.workdir = rest
        elif name == "ENV" and not rest.startswith(tuple(f"{own}=" for own in OWN_VARIABLES)):
            variable, value = assignment(rest)
            found.environment[variable] = value
        elif name == "COPY":
            _copy(rest, held, there, found)
        elif name == "RUN":
            _run(rest, there, found)
        elif name != "ENV":
            raise Unexpected(name)
    return found


def _copy(rest: str, held: dict[str, bytes], there: dict[str, bytes], found: Contents) -> None:
    """Files of the user go where they say, those of an installation to its folder."""
    options, words = json_words(rest)
    *sources, target = words
    if target == BUILD:
        there.update({source.removeprefix("files/"): held[source] for source in sources})
        return
    [mode] = [option.removeprefix("--chmod=") for option in options]
    found.files[plain_path(target)] = (held[sources[0]], mode)


def _run(rest: str, there: dict[str, bytes], found: Contents) -> None:
    """What the two install scripts are told."""
    _options, (_shell, script, *arguments) = json_words(rest)
    if script == f"{BUILD}install-native.sh":
        found.native, found.update = there["native.txt"].decode().splitlines(), arguments[1] == "yes"
        return
    if script != f"{BUILD}install-python.sh":
        raise Unexpected(script)
    indexes = [line.split()[1] for line in there["indexes.txt"].decode().splitlines()]
    found.upgrade_pip = arguments[1] == "yes"
    for line in there["steps.txt"].decode().splitlines():
        mode, numbers, *names = line.split()
        lines = [text for name in names for text in there[name].decode().splitlines()]
        used = [] if numbers == "-" else [indexes[int(number) - 1] for number in numbers.split(",")]
        found.python.append(Step(mode == "hashed", lines, used))
