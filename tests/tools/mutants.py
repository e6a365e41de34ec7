# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change one token of the code that decides, run the unit tests of that file, and see whether one of them notices.

A seeded sample of all changes is tried: comparisons, `and`/`or`, `not`, arithmetic, numbers, True/False, min/max,
any/all and `return None`. Annotations, decorators (also `frozen` and `slots` of dataclasses) and texts are left alone,
and two changes that make no difference: the check of lengths in `zip(..., strict=True)`, and `return False` as `return
None`, which is just as false (it becomes `return True` instead). All else counts, also what no test could notice.
The tests of a file are the one that mirrors it and those that import it, then those of the files that import it; of
many only the nearest by their folders are run. The files are changed in copies of the tree, never in the tree itself.
Fewer noticed than --at-least percent is a failure.
Usage: mutants.py TREE WORKPLACE [--seed N] [--count N] [--paths FILE_OR_FOLDER...] [--processes N] [--at-least PERCENT]
"""

from __future__ import annotations

import argparse
import ast
import collections.abc
import dataclasses
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import typing

ROOM = "plugins/module_utils"
DISPATCH = (f"{ROOM}/_flow/dispatch", f"{ROOM}/_policy/dispatch")
PATHS = tuple(
    f"{ROOM}/{name}"
    for name in (
        "_policy",
        "_engine",
        "_model",
        "_store/dispatch_lease.py",
        "_store/state_writer.py",
        "_kube/settled_writes.py",
        "_flow/dispatch/steps",
        "_flow/dispatch/pauses.py",
        "_flow/dispatch/workers.py",
    )
)
# Whole cycles of the dispatcher on a cluster in memory: they see all that it decides.
WHOLE_CYCLES = ("tests/unit/test_hostile_gangs.py", "tests/unit/test_memory_dispatcher.py")
# Of files that are used everywhere so many test files are run; more notice hardly anything that these do not.
MOST_NEAR, MOST_FAR = 16, 8
PACKAGE = "ansible_collections.muster.kube."
# A change that makes the tests take so much of the processor, or of the memory, was noticed. Waiting is not counted, so
# that a busy machine changes nothing; tests that wait for ever are ended all the same.
PROCESSOR_SECONDS = 60
PROCESSOR_SECONDS_PER_FILE = 10
WAITING_LIMIT = 1200.0
MEMORY_LIMIT = 3 * 2**30
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """One change: the bytes from start to end of a file become something else."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def text(self) -> str:
        """Place and change, for the reader."""
        return f"{self.path}:{self.line}: `{self.old}` becomes `{self.new}`"

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


class Changes(ast.NodeVisitor):
    """Collects the changes that are possible in one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.found: list[Mutant] = []
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def _add(self, line: int, start: int, end: int, new: str) -> None:
        old = self.source[start:end].decode()
        self.found.append(Mutant(self.path, line, start, end, " ".join(old.split()), new))

    def _operator(self, kind: ast.AST, left: ast.expr, right: ast.expr) -> None:
        """The operator between two operands becomes its opposite or neighbor."""
        if type(kind) not in OPERATORS:
            return
        old, new = OPERATORS[type(kind)]
        begin, end = self._end(left), self._start(right)
        pattern = r"\b" + r"\s+".join(old.split()) + r"\b" if old[0].isalpha() else re.escape(old)
        if found := re.search(pattern.encode(), self.source[begin:end]):
            line = self.source[: begin + found.start()].count(b"\n") + 1
            self._add(line, begin + found.start(), begin + found.end(), new)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Comparisons, each of a chain by itself."""
        operands = [node.left, *node.comparators]
        for kind, left, right in zip(node.ops, operands, node.comparators, strict=False):
            self._operator(kind, left, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """The words `and` and `or`."""
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator(node.op, left, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Arithmetic, but for texts that are put together."""
        if not any(is_text(side) for side in (node.left, node.right)):
            self._operator(node.op, node.left, node.right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """A `not` or a minus goes."""
        if isinstance(node.op, ast.Not | ast.USub):
            start, operand = self._start(node), self._start(node.operand)
            if b"(" not in self.source[start:operand]:
                self._add(node.lineno, start, operand, "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Numbers grow by one, True and False change places."""
        if isinstance(node.value, bool):
            self._add(node.lineno, self._start(node), self._end(node), str(not node.value))
        elif isinstance(node.value, int | float):
            self._add(node.lineno, self._start(node), self._end(node), repr(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        """Smallest and largest, any and all change places; how strict a zip is stays."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in CALLS:
            self._add(node.lineno, self._start(node.func), self._end(node.func), CALLS[name])
        for part in (node.func, *node.args, *(item for item in node.keywords if (name, item.arg) != ("zip", "strict"))):
            self.visit(part)

    def visit_Return(self, node: ast.Return) -> None:
        """Nothing is given back, where something else than None or False was."""
        empty = isinstance(node.value, ast.Constant) and (node.value.value is None or node.value.value is False)
        if node.value is not None and not empty:
            self._add(node.lineno, self._start(node.value), self._end(node.value), "None")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """The places of what stands in an f-string are not known, and it is for people to read."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """A value with its type: the type is no code."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function without its decorators and types."""
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class without its decorators and bases."""
        for statement in node.body:
            self.visit(statement)


def is_text(node: ast.expr) -> bool:
    """Whether an operand is certainly a text."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def changes_of(path: str, source: bytes) -> list[Mutant]:
    """All changes of one file, each once."""
    visitor = Changes(path, source)
    visitor.visit(ast.parse(source))
    return sorted(set(visitor.found))


def is_program(mutant: Mutant, source: bytes) -> bool:
    """Whether Python can read the file after the change."""
    try:
        ast.parse(mutant.applied(source))
    except SyntaxError:
        return False
    return True


def files_of(tree: pathlib.Path, paths: collections.abc.Iterable[str]) -> list[str]:
    """The files named, and those in the folders named."""
    found: set[pathlib.Path] = set()
    for path in paths:
        place = tree / path
        if not place.exists():
            raise SystemExit(f"{path} does not exist")
        found.update(place.rglob("*.py") if place.is_dir() else [place])
    return sorted(str(path.relative_to(tree)) for path in found if path.name != "__init__.py")


def drawn(tree: pathlib.Path, paths: collections.abc.Iterable[str], seed: int, count: int) -> list[Mutant]:
    """The sample, file by file, so that copies change as seldom as possible."""
    sources = {path: (tree / path).read_bytes() for path in files_of(tree, paths)}
    every = [mutant for path, source in sources.items() for mutant in changes_of(path, source)]
    random.Random(seed).shuffle(every)
    programs = (mutant for mutant in every if is_program(mutant, sources[mutant.path]))
    return sorted(itertools.islice(programs, count))


class Tests:
    """Which tests look at which file."""

    def __init__(self, tree: pathlib.Path) -> None:
        self.tree = tree
        self._imports = {
            str(path.relative_to(tree)): imported(path, tree)
            for top in ("plugins", "tests")
            for path in (tree / top).rglob("*.py")
        }

    def _importers(self, path: str, top: str) -> list[str]:
        module = path.removesuffix(".py").replace("/", ".")
        return sorted(name for name, imports in self._imports.items() if name.startswith(top) and module in imports)

    def _mirror(self, path: str) -> list[str]:
        place = pathlib.PurePosixPath("tests/unit") / path
        mirror = str(place.with_name(f"test_{place.name}"))
        return [mirror] if mirror in self._imports else []

    def near(self, path: str) -> list[str]:
        """The test that mirrors the file, and those that import it."""
        cycles = WHOLE_CYCLES if path.startswith(DISPATCH) else ()
        importers = nearest(path, self._importers(path, "tests/unit/"))[:MOST_NEAR]
        return list(dict.fromkeys([*self._mirror(path), *importers, *cycles]))

    def far(self, path: str) -> list[str]:
        """The tests of those files that import this one."""
        users = [near for user in self._importers(path, "plugins/") for near in self.near(user)]
        engine = WHOLE_CYCLES if path.startswith((f"{ROOM}/_engine", f"{ROOM}/_kube", f"{ROOM}/_policy")) else ()
        known = {*self.near(path), *engine}
        found = [name for name in dict.fromkeys(users) if name in self._imports and name not in known]
        return [*nearest(path, found)[:MOST_FAR], *(name for name in engine if name in self._imports)]


def nearest(path: str, tests: list[str]) -> list[str]:
    """Test files in the order of how many folders they share with the place where the file's own test belongs."""
    home = pathlib.PurePosixPath("tests/unit", path).parent

    def apart(name: str) -> int:
        """How many folders of the two are not the same."""
        folder = pathlib.PurePosixPath(name).parent
        same = len(os.path.commonpath([home, folder]).split("/"))
        return len(home.parts) + len(folder.parts) - 2 * same

    return sorted(tests, key=lambda name: (apart(name), name))


def imported(path: pathlib.Path, tree: pathlib.Path) -> set[str]:
    """The modules of the collection that a file imports, from its top folder on."""
    folder = path.relative_to(tree).parent.parts
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            above = ".".join(folder[: len(folder) + 1 - node.level])
            module = f"{PACKAGE}{above}.{node.module}" if node.level else node.module
            found.update([module, *(f"{module}.{alias.name}" for alias in node.names)])
    return {name.removeprefix(PACKAGE) for name in found if name.startswith(PACKAGE)}


def run_tests(tests: list[str], log: pathlib.Path) -> str:
    """Run tests in a copy of this process, which has loaded the libraries: why they failed, or nothing."""
    pid = os.fork()
    if pid == 0:
        run_and_leave(tests, log)
    deadline = time.monotonic() + WAITING_LIMIT
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return verdict(log)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "its time limit"


def run_and_leave(tests: list[str], log: pathlib.Path) -> typing.NoReturn:
    """What the child does: run the tests, with everything they print in a file."""
    code: int | str = 3
    try:
        seconds = PROCESSOR_SECONDS + PROCESSOR_SECONDS_PER_FILE * len(tests)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        import pytest

        code = int(pytest.main(["--ansible-unit-inject-only", "-x", "-q", "-p", "no:xdist", "--tb=line", *tests]))
    finally:
        sys.stdout.flush()
        os.write(1, f"\nexit code {code}\n".encode())
        os._exit(0)


def verdict(log: pathlib.Path) -> str:
    """Why tests failed, from what they printed; nothing when all passed."""
    lines = log.read_text(errors="replace").splitlines()
    if lines and lines[-1] == "exit code 0":
        return ""
    failed = [line.partition(" - ")[0].partition(" ")[2] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else "a limit of its process"


def work() -> None:
    """A worker: reads lines with a change and groups of tests, answers each with the failure or nothing."""
    import hypothesis  # noqa: F401  (loaded once, for all copies of this process)
    import kubernetes  # noqa: F401
    import pytest  # noqa: F401
    import yaml  # noqa: F401
    from ansible.module_utils import basic  # noqa: F401

    here = pathlib.Path.cwd()
    for line in sys.stdin:
        order = json.loads(line)
        mutant = Mutant(**order["mutant"]) if order["mutant"] else None
        source = (here / mutant.path).read_bytes() if mutant else b""
        failure = ""
        try:
            if mutant:
                (here / mutant.path).write_bytes(mutant.applied(source))
            for tests in order["groups"]:
                failure = failure or (run_tests(tests, here.parents[2] / "output") if tests else "")
        finally:
            if mutant:
                (here / mutant.path).write_bytes(source)
        print(json.dumps(failure), flush=True)


class Worker:
    """A process with a copy of the tree of its own."""

    def __init__(self, tree: pathlib.Path, place: pathlib.Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        copy = place / "ansible_collections" / "muster" / "kube"
        shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(".git"))
        beside = tree.parents[1] / "kubernetes"
        if beside.exists():
            (place / "ansible_collections" / "kubernetes").symlink_to(beside.resolve())
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).resolve()), "--work"],
            cwd=copy,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def failure(self, mutant: Mutant | None, groups: list[list[str]]) -> str:
        """What noticed the change; nothing when the tests passed."""
        order = {"mutant": dataclasses.asdict(mutant) if mutant else None, "groups": groups}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return str(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """Let the process end."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


class Trial:
    """Hands the changes out to the workers and keeps what became of them."""

    def __init__(self, mutants: list[Mutant], tests: Tests, workers: list[Worker]) -> None:
        self.tests = tests
        self.workers = workers
        self.left = list(reversed(mutants))
        self.survivors: list[Mutant] = []
        self.killed: list[Mutant] = []
        self._green: set[str] = set()
        self._lock = threading.Lock()

    def _next(self) -> Mutant | None:
        with self._lock:
            return self.left.pop() if self.left else None

    def _serve(self, worker: Worker) -> None:
        while mutant := self._next():
            groups = [self.tests.near(mutant.path), self.tests.far(mutant.path)]
            failure = worker.failure(mutant, groups)
            self._check(worker, failure)
            with self._lock:
                (self.killed if failure else self.survivors).append(mutant)
                print(f"killed   {mutant.text()} by {failure}" if failure else f"SURVIVED {mutant.text()}", flush=True)

    def _check(self, worker: Worker, failure: str) -> None:
        """A test that fails without any change, too, proves nothing."""
        if failure.startswith("tests/") and failure not in self._green:
            if worker.failure(None, [[failure]]):
                print(f"this test fails without any change: {failure}", flush=True)
                os._exit(2)
            self._green.add(failure)

    def run(self) -> None:
        """Try all changes."""
        threads = [threading.Thread(target=self._serve, args=(worker,)) for worker in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("workplace", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--paths", nargs="+", default=PATHS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--at-least", type=float, default=90.0)
    return parser.parse_args()


def main() -> int:
    """Draw, try, and tell."""
    asked = arguments()
    tree = asked.tree.resolve()
    tests = Tests(tree)
    mutants = drawn(tree, asked.paths, asked.seed, asked.count)
    workers = [Worker(tree, asked.workplace.resolve() / str(number)) for number in range(asked.processes)]
    trial = Trial(mutants, tests, workers)
    trial.run()
    for worker in workers:
        worker.close()
    tried = len(trial.killed) + len(trial.survivors)
    share = 100 * len(trial.killed) / max(tried, 1)
    print(f"\n{len(trial.killed)} of {tried} changes were noticed ({share:.1f} %), seed {asked.seed}. Not noticed:")
    for mutant in sorted(trial.survivors):
        print(f"  {mutant.text()}    {line_of(tree, mutant)}")
    return 0 if share >= asked.at_least else 1


def line_of(tree: pathlib.Path, mutant: Mutant) -> str:
    """The line as it stands."""
    return (tree / mutant.path).read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        sys.exit(main())
