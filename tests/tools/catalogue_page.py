# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write what the catalogue of operators holds as tables into its guide, docs/operator_stack.md.

The tables stand between two marks; a unit test fails when they are not those of the catalogue.
Usage: catalogue_page.py ROOT
"""

from __future__ import annotations

import ast
import pathlib
import sys
import typing as t

import yaml

PAGE = pathlib.Path("docs") / "operator_stack.md"
FILES = pathlib.Path("roles") / "operator_stack" / "files"
BEGIN, END = "<!-- catalogue: begin -->", "<!-- catalogue: end -->"
PROOFS = ("none", "played", "installed", "run")
Row = dict[str, t.Any]


def rows_of(root: pathlib.Path) -> list[Row]:
    """The rows by their names."""
    files = (root / FILES / "components").glob("*.yml")
    return sorted(
        (yaml.safe_load(path.read_text(encoding="utf-8")) for path in files), key=lambda row: str(row["name"])
    )


def proven(root: pathlib.Path) -> dict[str, str]:
    """The best proof of each row that integration tests give: those marked with proves("row", "proof")."""
    found: dict[str, str] = {}
    for path in sorted((root / "tests" / "integration").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
                name, proof = (ast.literal_eval(argument) for argument in node.args)
                found[name] = max(found.get(name, PROOFS[0]), proof, key=PROOFS.index)
    return found


def tables(root: pathlib.Path) -> str:
    """All tables."""
    versions = yaml.safe_load((root / FILES / "versions.yml").read_text(encoding="utf-8"))
    profiles = yaml.safe_load((root / FILES / "profiles.yml").read_text(encoding="utf-8"))
    rows = rows_of(root)
    components = [_component(row, versions[row["name"]]) for row in rows]
    features = [
        [f"`{row['name']}`", f"`{name}`", feature["title"], _names(feature.get("parameters", {}))]
        for row in rows
        for name, feature in row.get("features", {}).items()
    ]
    sets = [[f"`{name}`", profile["title"], _names(profile["components"])] for name, profile in profiles.items()]
    notes = [f"- `{row['name']}`: {note}" for row in rows for note in row.get("notes", [])]
    parts = [
        _table(["profile", "for", "components"], sets),
        _table(["component", "for", "versions", "source", "Kubernetes", "needs", "not beside", "proof"], components),
        _table(["component", "feature", "what it does", "parameters"], features),
        "\n".join(notes),
    ]
    return "\n\n".join(parts)


def with_tables(page: str, written: str) -> str:
    """The page with these tables between its marks."""
    before, _begin, rest = page.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{written}\n\n{END}{after}"


def _component(row: Row, versions: list[Row]) -> list[str]:
    """One line of the table of components; limits are those of its first version."""
    limits = {**dict.fromkeys(row.get("depends_on", []), ""), **versions[0].get("needs", {})}
    needs = ", ".join(f"`{name}` {bounds}".strip() for name, bounds in sorted(limits.items()))
    numbers = ", ".join(item["version"] for item in versions)
    first = versions[0]
    return [
        *(f"`{row['name']}`", row["title"], numbers, row["source"], first["kubernetes"], needs),
        *(_names(row.get("excludes", [])), row["proof"]),
    ]


def _names(names: t.Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(heads: list[str], lines: list[list[str]]) -> str:
    """A table as Markdown."""
    cells = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') or ' ' for cell in line)} |" for line in cells)


def main(root: pathlib.Path) -> None:
    """Write the page anew."""
    page = root / PAGE
    page.write_text(with_tables(page.read_text(encoding="utf-8"), tables(root)), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
