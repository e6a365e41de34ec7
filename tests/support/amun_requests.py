# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests as users of the Amun service kept them: 129 of the shapes that were in use.

Most are a table of one framework in several builds, on several bases, for several benchmarks and numbers of CPUs. The
others are stacks drawn at random, and one request for each further field.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import typing as t

Request = dict[str, t.Any]

COUNT = 129
BENCHMARKS = ("matmul", "conv1d", "conv2d")
CPUS = (1, 2, 3)
BATCHES = (20, 50, 100)
SCRIPT = "#!/usr/bin/env python3\nprint('{}')\n"
HARDWARE = {"cpu_family": 6, "cpu_model": 94, "processor": "Intel-Xeon-E3"}
SERVER = {
    "@created": "2020-03-04T10:11:12.131415",
    "@amun_service_version": "0.9.1",
    "@amun_api_url": "https://amun.example.com/api/v1",
    "@amun_deployment_name": "stage",
}


@dataclasses.dataclass(frozen=True)
class Package:
    """A release of a package, and the name of the source it is locked to; None for any."""

    name: str
    version: str
    digest: str
    source: str | None = None


def made_up(name: str, version: str, source: str | None = None) -> Package:
    """A release nobody can install."""
    return Package(name, version, hashlib.sha256(f"{name} {version} {source}".encode()).hexdigest(), source)


@dataclasses.dataclass(frozen=True)
class Zoo:
    """What the requests are about: bases, builds of the framework with what each needs, more packages, a script."""

    bases: tuple[str, ...] = (
        "quay.example.com/s2i/ubi8-py36:v0.12.0",
        "quay.example.com/s2i/ubi8-py38:v0.14.1",
        "quay.example.com/s2i/ubi8-mkl:latest",
        "registry.example.com/vendor/tensorflow@sha256:" + "5" * 64,
    )
    sources: tuple[tuple[str, str], ...] = (
        ("pypi", "https://pypi.example.com/simple"),
        ("aicoe", "https://index.example.com/aicoe/AVX2/simple/"),
    )
    frameworks: tuple[tuple[str, tuple[Package, ...]], ...] = (
        ("tensorflow", (made_up("tensorflow", "2.1.0", "pypi"), made_up("numpy", "1.18.1"))),
        ("TensorFlow_2.1-AICoE", (made_up("tensorflow", "2.1.0", "aicoe"), made_up("numpy", "1.18.1", "pypi"))),
        ("intel-tensorflow", (made_up("intel-tensorflow", "2.1.0", "pypi"), made_up("numpy", "1.18.0"))),
    )
    others: tuple[Package, ...] = tuple(
        made_up(name, version)
        for name in ("absl-py", "astor", "gast", "grpcio", "h5py", "keras-applications", "six", "urllib3", "wheel")
        for version in ("0.9.0", "1.0.8", "1.25.8")
    )
    native: tuple[str, ...] = ("gcc-c++", "python36-devel")
    free: tuple[str, ...] = ("micropipenv", "pipenv==2018.11.26")
    script: str = "https://raw.example.com/performance/%s.py"
    python_version: str | None = "3.6"

    def requests(self) -> list[Request]:
        """All of them; the same each time."""
        table = [
            self._benchmark(framework, base, benchmark, cpus)
            for framework in range(len(self.frameworks))
            for benchmark in BENCHMARKS
            for base in self.bases
            for cpus in CPUS
        ]
        odd = self._odd()
        walk = random.Random(129)
        return [*table, *odd, *(self._walk(walk) for _one in range(COUNT - len(table) - len(odd)))]

    def _url(self, name: str) -> str:
        """Where a script lies."""
        return self.script % name if "%s" in self.script else self.script

    def _benchmark(self, framework: int, base: str, benchmark: str, cpus: int) -> Request:
        """One benchmark of one build of the framework, on one base, with so many CPUs and as many threads."""
        name, packages = self.frameworks[framework]
        amounts = {"cpu": str(cpus), "memory": "2Gi"}
        return {
            "base": base,
            "identifier": f"{name}-{benchmark}-{cpus}",
            "batch_size": BATCHES[(cpus + len(benchmark)) % len(BATCHES)],
            "environment": [{"name": "OMP_NUM_THREADS", "value": str(cpus)}],
            "files": [],
            "packages": [],
            "python": self._python(packages),
            "python_packages": list(self.free[:1]),
            "package_manager": "micropipenv",
            "build": {"requests": dict(amounts)},
            "run": {"requests": dict(amounts)},
            "script": self._url(benchmark),
            **SERVER,
        }

    def _walk(self, chance: random.Random) -> Request:
        """A stack drawn at random, run once: the question is whether it can be imported."""
        _name, packages = chance.choice(self.frameworks)
        more = {package.name: package for package in chance.sample(self.others, min(6, len(self.others)))}
        more |= {package.name: package for package in packages}
        return {
            "base": chance.choice(self.bases),
            "identifier": f"random-walk-{chance.randrange(900)}",
            "batch_size": 1,
            "environment": [],
            "files": None,
            "python": {**self._python(tuple(more.values())), "constraints": [], "runtime_environment": {"name": "any"}},
            "run": {"requests": {"cpu": "500m", "memory": "256Mi"}},
            "build": {"requests": {"memory": "1Gi"}},
            "script": self._url("import"),
            "send_messages": chance.choice((True, False)),
        }

    def _odd(self) -> list[Request]:
        """One request for each field that the others leave out."""
        base, (_name, packages) = self.bases[0], self.frameworks[0]
        quoted = 'it\'s "quoted" $HOME `id` \\n\n\tzwölf\n\n'
        return [
            {"base": base},
            {"base": base, "script": "import sys\nprint(sys.version)\n"},
            {"base": base, "packages": list(self.native), "update": True, "script": SCRIPT},
            {"base": base, "python_packages": list(self.free), "upgrade_pip": bool(self.free), "script": SCRIPT},
            {
                "base": base,
                "environment": [{"name": "GREETING", "value": 'good "day" $HOME'}, {"name": "HOME", "value": "/tmp"}],
                "files": [{"path": "/etc/two words.conf", "content": quoted}, {"path": "/opt/a/b/c", "content": ""}],
                "script": SCRIPT,
            },
            {
                "base": base,
                "files": [{"path": "/home/amun/data/input.csv", "content": "a,b\n1,2\n"}],
                "script": SCRIPT,
            },
            {
                "base": base,
                "python": self._python(packages),
                "python_packages": [f"{packages[0].name.upper()}==0.1", *self.free[:1]],
                "package_manager": "pipenv",
                "script": SCRIPT,
            },
            {
                "base": base,
                "run": {"requests": {"cpu": "1", "memory": "1Gi", "hardware": HARDWARE}},
                "build": {"requests": {"hardware": {**HARDWARE, "physical_cpus": 8}}},
                "batch_size": 3,
                "parallelism": 2,
                "allowed_failures": 1,
                "force_sync": True,
                "script": SCRIPT,
            },
        ]

    def _python(self, packages: tuple[Package, ...]) -> Request:
        """A Pipfile and the lock that was made of it."""
        requires = {"python_version": self.python_version} if self.python_version else {}
        sources = [{"name": name, "url": url, "verify_ssl": True} for name, url in self.sources]
        wanted: Request = {
            package.name: {"version": f"=={package.version}", "index": package.source} if package.source else "*"
            for package in packages
        }
        pipfile = {"source": sources, "packages": wanted, "dev-packages": {}, "requires": requires}
        hashed = {"_meta": {"sources": sources, "requires": requires}, "default": wanted, "develop": {}}
        digest = hashlib.sha256(json.dumps(hashed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        meta = {"hash": {"sha256": digest}, "pipfile-spec": 6, "requires": requires, "sources": sources}
        default = {
            package.name: {
                "hashes": [f"sha256:{package.digest}"],
                "version": f"=={package.version}",
                **({"index": package.source} if package.source else {}),
            }
            for package in packages
        }
        lock = {"_meta": meta, "default": default, "develop": {}}
        return {"requirements": pipfile, "requirements_locked": lock}
