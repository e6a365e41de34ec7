# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests of Amun built and run for real: the script finds itself, its home and all that was asked for.

A few drawn at random in an ordinary run, ten times as many in a full one. What a distribution's package manager would
have to fetch is left to other tests.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import random

import pytest
from ansible_collections.muster.kube.tests.support.amun_requests import Package, Zoo
from ansible_collections.muster.kube.tests.support.build_site import BuildSite
from ansible_collections.muster.kube.tests.support.inspector import Inspector
from ansible_collections.muster.kube.tests.support.package_server import Indexes
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE

SAMPLE = examples(2)
REPETITIONS = 2
# Prints what the process is and what it finds.
SCRIPT = """import importlib.metadata, json, os, pathlib, sys
home = pathlib.Path.cwd()
(home / "written").write_text("x")
paths = ["/etc/two words.conf", "/opt/a/b/c", "/home/amun/data/input.csv"]
print(json.dumps({
    "uid": os.getuid(),
    "folder": str(home),
    "home": os.environ.get("HOME"),
    "written": (home / "written").read_text(),
    "environment": dict(os.environ),
    "packages": {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()},
    "files": {path: pathlib.Path(path).read_text() for path in paths if pathlib.Path(path).exists()},
}))
"""


@pytest.fixture(scope="module")
def indexes(tmp_path_factory):
    """Two indexes that need no password, and the script beside them."""
    place = tmp_path_factory.mktemp("indexes")
    with Indexes(place, guarded=None) as running:
        (place / "script.py").write_text(SCRIPT, encoding="utf-8")
        yield running


def zoo(indexes, base):
    """The requests, about packages that are there."""

    def package(name, source=None):
        return Package(name, "1.0", indexes.hashes[name].removeprefix("sha256:"), source)

    return Zoo(
        bases=(base,) * 4,
        sources=tuple((name, f"http://{indexes.address}/{name}/") for name in ("first", "second")),
        frameworks=(
            ("upstream", (package("apple", "first"),)),
            ("Their_Own-2.1", (package("apple", "first"), package("pear", "second"))),
            ("vendor", (package("pear", "second"),)),
        ),
        others=(package("plum"),),
        native=(),
        free=(),
        script=f"http://{indexes.address}/script.py",
        python_version=None,
    )


def drawn(requests):
    """Up to half of them with files in their home, then others by chance; of equal ones the first."""
    different = {json.dumps({**request, "identifier": None}, sort_keys=True): request for request in requests}
    able = [
        request
        for request in different.values()
        if "script" in request and not request.get("update") and "hardware" not in json.dumps(request)
    ]
    special = [request for request in able if "/home/amun/" in json.dumps(request.get("files"))][: SAMPLE // 2]
    chance = random.Random(int(os.environ.get("MUSTER_SEED", "1")))
    others = [request for request in able if request not in special]
    return [*special, *chance.sample(others, min(SAMPLE - len(special), len(others)))]


def inspect(inspector, request):
    """The answer to one request, with the script of these tests."""
    by_url = str(request["script"]).startswith("http://")
    digest = f"sha256:{hashlib.sha256(SCRIPT.encode()).hexdigest()}"
    asked = request if by_url else {**request, "script": SCRIPT}
    return inspector.run(specification=asked, checksum=digest if by_url else None)


def test_a_sample_of_requests_gives_images_and_runs_like_amun_s(real_cluster, real_namespace, indexes, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = BuildSite(real_cluster, real_namespace)
    settings = site.options(image=f"{site.registry}/zoo")
    build = {key: value for key, value in settings.items() if key not in ("namespace", "image")}
    inspector = Inspector(
        real_cluster.kubeconfig,
        real_namespace,
        build={**build, "repository": settings["image"], "limits": {}},
        run={"requests": {"memory": "64Mi"}, "hardware": {"node_selector": ON_REAL_NODE}},
        repetitions=REPETITIONS,
        parallelism=REPETITIONS,
    )
    requests = drawn(zoo(indexes, real_cluster.python_image()).requests())
    # At once, since a build waits for disk and registry as much as for a processor.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda request: inspect(inspector, request), requests))
    for request, answer in zip(requests, answers, strict=True):
        assert answer["phase"] == "Succeeded", (answer["message"], request)
        assert len(answer["runs"]) == REPETITIONS
        for run in answer["runs"]:
            found = run["stdout"]
            own = {entry["name"]: entry["value"] for entry in request.get("environment") or ()}
            assert (found["uid"], found["folder"], found["written"]) == (1042, "/home/amun", "x")
            assert found["home"] == own.get("HOME", "/home/amun")
            assert own.items() <= found["environment"].items()
            locked = request.get("python", {}).get("requirements_locked", {"default": {}})["default"]
            fruit = {name: version for name, version in found["packages"].items() if name in indexes.hashes}
            assert fruit == {name: entry["version"].removeprefix("==") for name, entry in locked.items()}
            assert found["files"] == {entry["path"]: entry["content"] for entry in request.get("files") or ()}
