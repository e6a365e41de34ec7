# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check what no other linter knows: the sizes and habits agreed on for this collection.

Faces (modules, action and filter plugins) hold at most 120 lines of code, functions at most 60 lines; options are read
in faces only; kubernetes.core is imported in _kube only; values and decisions touch no file; private files say that
they are private; no file has a name that says nothing; programs are not given our standard input, which some of them
leave behind changed. A folder of module_utils holds at most 15 files, and a class name stands for one class.
Outside of tests each function has a docstring, except magic methods, functions inside of others
and private functions of three lines or less.
Usage: limits.py COLLECTION_ROOT
"""

from __future__ import annotations

import ast
import collections
import pathlib
import sys
import tokenize

FACE_FOLDERS = ("modules", "action", "filter", "lookup")
FACE_LINES = 120
FUNCTION_LINES = 60
# A private function with so many lines in its body needs no docstring: its name says as much.
PLAIN_LINES = 3
EMPTY_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}
PRIVATE_NOTICE = "# This file is private to the muster.kube collection; do not import it from elsewhere."
FOLDER_FILES = 15
PURE_ROOMS = ("_model", "_policy")
# What touches a file when a path or a module is asked for it.
FILE_CALLS = {"exists", "is_dir", "is_file", "iterdir", "read_bytes", "read_text", "stat", "write_bytes", "write_text"}
# Functions of subprocess.
STARTERS = frozenset({"Popen", "call", "check_call", "check_output", "run"})
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def is_text_block(node: ast.stmt) -> bool:
    """Whether a statement is documentation: a docstring or one of Ansible's three blocks."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    return False


def code_lines(path: pathlib.Path, tree: ast.Module) -> int:
    """Lines that hold code: no blank lines, comments, docstrings or documentation blocks."""
    lines: set[int] = set()
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type not in NOT_CODE and token.type != tokenize.ENCODING:
                lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and is_text_block(node):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def long_functions(nodes: list[ast.AST]) -> list[tuple[int, str, int]]:
    """Line, name and length of each function above the limit."""
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [(node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    return [entry for entry in lengths if entry[2] > FUNCTION_LINES]


def undocumented_functions(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    """Line and name of each function of a module or class that needs a docstring and has none."""
    homes = (node.body for node in nodes if isinstance(node, ast.Module | ast.ClassDef))
    functions = [node for body in homes for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        (node.lineno, node.name)
        for node in functions
        if ast.get_docstring(node) is None
        and not node.name.startswith("__")
        and (not node.name.startswith("_") or (node.body[-1].end_lineno or 0) - node.body[0].lineno >= PLAIN_LINES)
    ]


def params_uses(nodes: list[ast.AST]) -> list[int]:
    """Lines that read `module.params`, or take the options of a task as a parameter called params."""
    return [
        node.lineno
        for node in nodes
        if (isinstance(node, ast.arg) and node.arg == "params")
        or (
            isinstance(node, ast.Attribute)
            and node.attr == "params"
            and isinstance(node.value, ast.Name)
            and node.value.id == "module"
        )
    ]


def file_uses(nodes: list[ast.AST]) -> list[int]:
    """Lines that touch a file: the built-in open, or what only a path can be asked."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [
        node.lineno
        for node in calls
        if (isinstance(node.func, ast.Name) and node.func.id == "open")
        or (isinstance(node.func, ast.Attribute) and node.func.attr in FILE_CALLS)
    ]


def collection_imports(nodes: list[ast.AST]) -> list[int]:
    """Lines that import from kubernetes.core, which import-linter cannot tell from our own namespace."""
    prefix = "ansible_collections.kubernetes"
    return [
        node.lineno
        for node in nodes
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(prefix))
        or (isinstance(node, ast.Import) and any(alias.name.startswith(prefix) for alias in node.names))
    ]


def inherited_inputs(nodes: list[ast.AST]) -> list[int]:
    """Lines that start a program without saying what it reads."""
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in STARTERS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "subprocess"
        and not any(keyword.arg in ("stdin", "input", None) for keyword in node.keywords)
    ]


def check_file(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    """Every complaint about one file."""
    name = path.relative_to(root)
    text = path.read_text()
    tree = ast.parse(text, str(path))
    # Walked through once: this is most of the work.
    nodes = list(ast.walk(tree))
    found = [f"{name}:{line}: function {function} has {size} lines" for line, function, size in long_functions(nodes)]
    found += [f"{name}:{line}: the program inherits standard input" for line in inherited_inputs(nodes)]
    if name.parts[0] != "tests":
        found += [
            f"{name}:{line}: function {function} has no docstring" for line, function in undocumented_functions(nodes)
        ]
    if path.stem.strip("_") in EMPTY_NAMES:
        found.append(f"{name}:1: the name says nothing")
    if name.parts[0] == "plugins" and name.parts[1] in FACE_FOLDERS and code_lines(path, tree) > FACE_LINES:
        found.append(f"{name}:1: a face of {code_lines(path, tree)} code lines")
    if name.parts[:2] == ("plugins", "module_utils") and text:
        if text.splitlines()[0] != PRIVATE_NOTICE:
            found.append(f"{name}:1: the first line does not say that the file is private")
        if name.parts[2] != "_face":
            found += [f"{name}:{line}: the options of a task are read below the face" for line in params_uses(nodes)]
        if name.parts[2] in PURE_ROOMS:
            found += [
                f"{name}:{line}: a file is touched where nothing but values is known" for line in file_uses(nodes)
            ]
    if name.parts[0] == "plugins" and "_kube" not in name.parts:
        found += [f"{name}:{line}: kubernetes.core is imported outside _kube" for line in collection_imports(nodes)]
    return found


def full_folders(root: pathlib.Path) -> list[str]:
    """Folders of module_utils with more files than anybody keeps in mind; empty marks of packages do not count."""
    files = (path for path in (root / "plugins" / "module_utils").rglob("*.py") if path.name != "__init__.py")
    counts = collections.Counter(path.parent for path in files)
    return [
        f"{folder.relative_to(root)}: {count} files, {FOLDER_FILES} are allowed"
        for folder, count in sorted(counts.items())
        if count > FOLDER_FILES
    ]


def shared_names(root: pathlib.Path) -> list[str]:
    """Class names below module_utils that stand for several classes."""
    homes: dict[str, list[str]] = collections.defaultdict(list)
    for path in sorted((root / "plugins" / "module_utils").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return [
        f"{places[0]}: the class {name} is also defined in {', '.join(places[1:])}"
        for name, places in sorted(homes.items())
        if len(places) > 1
    ]


def check_tree(root: pathlib.Path) -> list[str]:
    """Every complaint about the Python files of a collection."""
    folders = ("plugins", "tests", "bench", "extensions")
    files = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return (
        [complaint for path in files for complaint in check_file(root, path)] + full_folders(root) + shared_names(root)
    )


if __name__ == "__main__":
    complaints = check_tree(pathlib.Path(sys.argv[1]))
    print("\n".join(complaints) or "Sizes and habits: nothing to complain about.")
    sys.exit(bool(complaints))
