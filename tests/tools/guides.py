# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the guides as the documentation site wants them: docs/*.md become docs/docsite/rst/*.rst.

Usage: guides.py ROOT
"""

from __future__ import annotations

import pathlib
import re
import sys
import typing as t

if t.TYPE_CHECKING:
    from markdown_it.token import Token

# In the order in which a reader meets them.
GUIDES = (
    *(
        "first_gang",
        "share",
        "elastic",
        "elastic_service",
        "fit",
        "recipes",
        "dispatch",
        "report",
        "inspect",
        "dockerfile",
        "hardware",
        "components",
        "operator_stack",
    ),
    *("from_mcad", "from_genai_wm", "from_amun", "benchmarks", "architecture", "protocol"),
)
NOTICE = """..
  Copyright (c) 2026, The muster.kube authors
  GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
  SPDX-License-Identifier: GPL-3.0-or-later

.. Made from docs/{name}.md by tests/tools/guides.py; change that file and run `make guides`.

"""
LABEL = "ansible_collections.muster.kube.docsite.{}"
# Where a mark begins and ends, as long as its neighbors are not known.
OPEN, CLOSE = "\x01", "\x02"
LINES = {"h1": "=", "h2": "-", "h3": "~"}


def convert(name: str, text: str) -> str:
    """One guide as reStructuredText."""
    # Only those who write the guides need it.
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    body, _end = _blocks(tokens, 0, None)
    return NOTICE.format(name=name) + f".. _{LABEL.format(name)}:\n\n" + "\n".join(body).strip() + "\n"


def _blocks(tokens: list[Token], place: int, closing: str | None) -> tuple[list[str], int]:
    """The lines of all blocks up to a closing token, and the place behind it."""
    lines: list[str] = []
    while place < len(tokens) and tokens[place].type != closing:
        token = tokens[place]
        if token.type == "heading_open":
            title = _inline(tokens[place + 1])
            lines += [title, LINES[token.tag] * len(title), ""]
            place += 3
        elif token.type == "paragraph_open":
            lines += [*_inline(tokens[place + 1]).split("\n"), ""]
            place += 3
        elif token.type == "fence":
            lines += [f".. code-block:: {token.info.strip() or 'text'}", ""]
            lines += [f"    {line}".rstrip() for line in token.content.rstrip("\n").split("\n")] + [""]
            place += 1
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            found, place = _list(tokens, place)
            lines += found
        elif token.type == "table_open":
            found, place = _table(tokens, place)
            lines += found
        else:
            place += 1
    return lines, place + 1


def _list(tokens: list[Token], place: int) -> tuple[list[str], int]:
    """A list; what belongs to an entry is indented below it."""
    closing = tokens[place].type.replace("open", "close")
    mark = "- " if closing.startswith("bullet") else "#. "
    lines: list[str] = []
    place += 1
    while tokens[place].type != closing:
        found, place = _blocks(tokens, place + 1, "list_item_close")
        while found and not found[-1]:
            found.pop()
        lines += [f"{mark if number == 0 else ' ' * len(mark)}{line}".rstrip() for number, line in enumerate(found)]
        lines.append("")
    return lines, place + 1


def _table(tokens: list[Token], place: int) -> tuple[list[str], int]:
    """A table as a list of rows, which needs no widths."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    first = True
    while tokens[place].type != "table_close":
        if tokens[place].type == "tr_open":
            first = True
        if tokens[place].type == "inline":
            text = _inline(tokens[place]).replace("\n", " ") or "\\ "
            lines.append(f"   {'*' if first else ' '} - {text}")
            first = False
        place += 1
    return [*lines, ""], place + 1


def _inline(token: Token) -> str:
    """Text with its marks; marks inside of marks are dropped, which reStructuredText does not know."""
    text, inside, start, target = "", "", 0, ""
    for part in token.children or ():
        if part.type in ("softbreak", "hardbreak"):
            text += "\n" if not inside else " "
        elif part.type in ("strong_open", "em_open", "link_open") and not inside:
            inside, start = part.type, len(text)
            target = str(part.attrGet("href") or "")
        elif (
            part.type in ("strong_close", "em_close", "link_close")
            and part.type.partition("_")[0] == inside.partition("_")[0]
        ):
            text = text[:start] + _marked(inside, text[start:], target)
            inside = ""
        elif part.type == "code_inline":
            text += part.content if inside else f"{OPEN}``{part.content}``{CLOSE}"
        elif part.type == "text":
            text += part.content if inside else re.sub(r"([*`|\\])|_(?=\W|$)", r"\\\g<0>", part.content)
    return _spaced(text)


def _marked(kind: str, text: str, target: str) -> str:
    """A marked text; links to other guides become references, those to other files of the repository are left out."""
    if kind == "link_open":
        page = re.fullmatch(r"([a-z_]+)\.md(#.*)?", target)
        if page:
            return f"{OPEN}:ref:`{text} <{LABEL.format(page[1])}>`{CLOSE}"
        return f"{OPEN}`{text} <{target}>`__{CLOSE}" if target.startswith("http") else text
    mark = "**" if kind == "strong_open" else "*"
    return f"{OPEN}{mark}{text}{mark}{CLOSE}"


def _spaced(text: str) -> str:
    """Marks need a border: where none is, an escaped space that is not shown."""
    text = re.sub(rf"(?<=[^\s(\[{{<'\"/\-–:]){OPEN}", "\\\\ ", text)
    text = re.sub(rf"{CLOSE}(?=[^\s.,:;!?)\]}}>'\"/\-–])", "\\\\ ", text)
    return text.replace(OPEN, "").replace(CLOSE, "")


def write(root: pathlib.Path) -> None:
    """All guides."""
    for name in GUIDES:
        text = (root / "docs" / f"{name}.md").read_text(encoding="utf-8")
        target = root / "docs" / "docsite" / "rst" / f"{name}.rst"
        target.parent.mkdir(exist_ok=True)
        target.write_text(convert(name, text), encoding="utf-8")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
