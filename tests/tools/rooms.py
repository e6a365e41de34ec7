# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw the rooms of the code as they are: who imports whom, read from the imports themselves.

The picture stands in docs/architecture.md between two marks; a unit test fails when it is not that of the code.
Usage: rooms.py ROOT
"""

from __future__ import annotations

import ast
import pathlib
import sys

PACKAGE = "ansible_collections.muster.kube.plugins."
PAGE = pathlib.Path("docs") / "architecture.md"
BEGIN, END = "<!-- rooms: begin -->", "<!-- rooms: end -->"
# From the top of the house to its ground.
ROOMS = ("modules", "action", "filter", "_face", "_flow", "_engine", "_store", "_kube", "_host", "_policy", "_model")


def room_of(dotted: str) -> str | None:
    """The room that a module below plugins/ belongs to."""
    parts = dotted.split(".")
    name = parts[1] if parts[0] == "module_utils" and len(parts) > 1 else parts[0]
    return name if name in ROOMS else None


def imports_of(path: pathlib.Path, plugins: pathlib.Path) -> set[str]:
    """The modules of the collection's plugins that a file imports, by their full names or from where it is."""
    folder = path.relative_to(plugins).parent.parts
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    near = {".".join([*folder[: len(folder) + 1 - node.level], node.module or ""]) for node in nodes if node.level}
    return near | {node.module.removeprefix(PACKAGE) for node in nodes if (node.module or "").startswith(PACKAGE)}


def edges_of(root: pathlib.Path) -> dict[str, set[str]]:
    """For each room the rooms below that it imports from."""
    edges: dict[str, set[str]] = {room: set() for room in ROOMS}
    plugins = root / "plugins"
    for path in sorted(plugins.rglob("*.py")):
        own = room_of(".".join(path.relative_to(plugins).with_suffix("").parts))
        if own is not None:
            edges[own] |= {room for module in imports_of(path, plugins) if (room := room_of(module)) not in (None, own)}
    return edges


def picture(edges: dict[str, set[str]]) -> str:
    """The rooms as a diagram that code forges draw."""
    lines = ["```mermaid", "graph TD"]
    lines += [f"  {room} --> {below}" for room in ROOMS for below in ROOMS if below in edges[room]]
    return "\n".join([*lines, "```"])


def with_picture(page: str, drawn: str) -> str:
    """The page with this picture between its marks."""
    before, _begin, rest = page.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawn}\n{END}{after}"


def main(root: pathlib.Path) -> None:
    """Write the picture anew."""
    page = root / PAGE
    page.write_text(with_picture(page.read_text(encoding="utf-8"), picture(edges_of(root))), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
