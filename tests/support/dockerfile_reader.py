# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small reader of Dockerfiles, written from the documented rules, to check what the generator writes.

A line that ends in a backslash goes on in the next one; empty lines and lines that start with # say nothing. In double
quotes a backslash takes the meaning from a backslash, a quote and a dollar; any other dollar starts a variable. COPY
and RUN are read in their JSON form only; paths of COPY are words, in which a backslash protects the next character.
"""

from __future__ import annotations

import json
import re


class Unexpected(Exception):
    """Something that a generated Dockerfile must not hold."""


def instructions(text: str) -> list[tuple[str, str]]:
    """Names and arguments of the instructions."""
    found = []
    waiting = ""
    for line in text.split("\n"):
        if not waiting and (not line.strip() or line.lstrip().startswith("#")):
            continue
        if line.rstrip().endswith("\\"):
            waiting += line.rstrip()[:-1]
            continue
        name, _space, rest = (waiting + line).strip().partition(" ")
        found.append((name.upper(), rest))
        waiting = ""
    if waiting:
        raise Unexpected("the last line goes on")
    return found


def assignment(arguments: str) -> tuple[str, str]:
    """The one name and value of an ENV or LABEL instruction."""
    name, sign, word = arguments.partition("=")
    if not sign or re.search(r"[\s\"'\\$]", name) or len(word) < 2 or word[0] != '"':
        raise Unexpected(arguments)
    value = ""
    position = 1
    while word[position] != '"':
        if word[position] == "$":
            raise Unexpected(f"a variable in {arguments}")
        if word[position] == "\\" and word[position + 1] in '\\"$':
            position += 1
        value += word[position]
        position += 1
    if position != len(word) - 1:
        raise Unexpected(f"more than one word in {arguments}")
    return name, value


def json_words(arguments: str) -> tuple[list[str], list[str]]:
    """The options and the words of a COPY or RUN instruction in JSON form."""
    options = []
    while arguments.startswith("--"):
        option, _space, arguments = arguments.partition(" ")
        options.append(option)
    words = json.loads(arguments)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Unexpected(arguments)
    return options, words


def plain_path(word: str) -> str:
    """The path that a word of COPY stands for."""
    path = ""
    position = 0
    while position < len(word):
        if word[position] in "$\"'":
            raise Unexpected(f"{word[position]} in {word}")
        if word[position] == "\\":
            position += 1
        path += word[position]
        position += 1
    return path
