# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile packages in real builds: what they try to read of the build's secrets, and what of it is found afterwards."""

from __future__ import annotations

import base64
import concurrent.futures
import dataclasses
import json
import pathlib
import secrets

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.tests.support.build_site import BuildSite

NAMESPACE = "build-secrets"
HOSTILE = (pathlib.Path(__file__).parent / "files" / "hostile_package.py").read_text(encoding="utf-8")
LOOT = ("loot-before", "loot-after")
LEAST_ATTEMPTS = 22
TIERS = ("baseline", "unconfined", "privileged")


@dataclasses.dataclass(frozen=True)
class Known:
    """The values that must not be found anywhere."""

    push: str
    pull: str
    index: str


@pytest.fixture(scope="module")
def site(real_cluster):
    """One namespace for all builds."""
    real_cluster.live.namespace(NAMESPACE)
    yield BuildSite(real_cluster, NAMESPACE)
    real_cluster.live.drop_namespace(NAMESPACE)


@pytest.fixture(scope="module")
def known(site):
    """Secrets of all sorts in the namespace."""
    values = Known(*(f"{name}-{secrets.token_hex(12)}" for name in ("push", "pull", "index")))
    for name in ("push", "pull"):
        account = base64.b64encode(f"me:{getattr(values, name)}".encode()).decode()
        content = {"auths": {site.registry: {"auth": account}}}
        store(site, name, "kubernetes.io/dockerconfigjson", {".dockerconfigjson": json.dumps(content)})
    store(site, "index", "Opaque", {"url": f"https://me:{values.index}@packages.example.com/simple\n"})
    return values


def store(site, name, sort, data):
    """Create a Secret."""
    metadata = {"name": name, "namespace": NAMESPACE}
    site.cluster.live.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": sort, "stringData": data}
    )


def disguises(value):
    """A value as it is, and as somebody who hides it would write it."""
    raw = value.encode()
    return {value, value[::-1], raw.hex(), raw[::-1].hex(), base64.b64encode(raw).decode()}


def traces(known, text):
    """The names of all secrets that a text holds in any disguise."""
    return {
        name
        for name, value in dataclasses.asdict(known).items()
        if any(disguise in text for disguise in disguises(value))
    }


def stored_texts(site):
    """Everything that was written into ConfigMaps of the namespace."""
    path = resource_path("v1", "configmaps", NAMESPACE)
    return json.dumps(list_objects(site.cluster.client, path, keep=lambda raw: raw).items)


def build(site, tier, image, *lines, base=None, files=()):
    """Build with a Dockerfile of its own and all secrets at hand."""
    stack = {
        "dockerfile": "\n".join([f"FROM {base or site.busybox}", *lines, ""]),
        "files": list(files),
        "secrets": [{"id": "index", "secret": "index", "key": "url"}],
    }
    named = {"tier": tier, "image": f"{site.registry}/test/{image}", "push_secret": "push", "pull_secret": "pull"}
    return site.build(stack=stack, **named)


def build_hostile(site, tier):
    """Build with a package that looks for secrets, before and after a step that has one.

    What it found is kept in the image too: buildah may drop the end of what a step printed just before it ended.
    """
    before, after = (
        f"RUN REGISTRY={site.registry} python3 /hostile_package.py > /{loot} 2>&1; cat /{loot}" for loot in LOOT
    )
    mounted = "RUN --mount=type=secret,id=index,required=true wc -c < /run/secrets/index > /length"
    lines = ("COPY hostile_package.py /", before, mounted, after)
    files = [{"path": "hostile_package.py", "content": HOSTILE}]
    return build(site, tier, f"hostile-{tier}", *lines, base=site.cluster.python_image(), files=files)


def build_shown(site):
    """Build with a step that prints its secret."""
    shown = "cat /run/secrets/index; base64 -w 0 /run/secrets/index; cut -d : -f 3 /run/secrets/index"
    # The end of what a step prints may be lost; what comes before more than a pipe holds has been read by then.
    shown += "; head -c 150000 /dev/zero | tr '\\0' ."
    return build(site, "baseline", "shown", f"RUN --mount=type=secret,id=index {shown}")


def build_holding(site):
    """Build with a step that puts its secret into the image."""
    return build(site, "baseline", "holds", "RUN --mount=type=secret,id=index cp /run/secrets/index /stolen")


def attempts_in(text):
    """The lines in which a hostile package tells what came of an attempt."""
    return [line for line in text.splitlines() if ": refused: " in line or ": GOT " in line]


@pytest.fixture(scope="module")
def under_way(site, known):
    """The builds of all tests, begun together, since mostly they wait."""
    with concurrent.futures.ThreadPoolExecutor(len(TIERS)) as pool:
        tiers = {tier: pool.submit(build_hostile, site, tier) for tier in TIERS}
        yield {**tiers, "shown": pool.submit(build_shown, site), "holds": pool.submit(build_holding, site)}


@pytest.mark.parametrize("tier", TIERS)
def test_a_hostile_package_finds_no_secret_that_is_not_of_its_own_step(site, known, under_way, tier):
    built = under_way[tier].result()
    assert (built["reason"], built["tier"]) == (None, tier), built["log"]
    assert attempts_in(built["log"]), "what the package printed is part of what is searched"
    layers = site.layers(built["image"])
    for loot in LOOT:
        attempts = attempts_in(site.file_in(layers, loot)[0].decode())
        print("\n".join(attempts))
        assert len(attempts) >= LEAST_ATTEMPTS, built["log"]
    assert site.file_in(layers, "length")[0].strip() != b"0"
    everything = "\n".join([json.dumps(built), stored_texts(site), *(layer.decode("latin-1") for layer in layers)])
    assert traces(known, everything) == set()


def test_a_step_that_prints_its_own_secret_is_masked(site, known, under_way):
    built = under_way["shown"].result()
    assert built["reason"] is None, built["log"]
    assert "********" in built["log"]
    assert traces(known, json.dumps(built) + stored_texts(site)) == set()


def test_an_image_that_holds_a_secret_is_not_pushed(site, known, under_way):
    built = under_way["holds"].result()
    assert (built["reason"], built["digest"]) == ("build_failed", None)
    assert "holds the value of build secret index" in built["message"]
    assert "test/holds" not in site.repositories()
    assert traces(known, json.dumps(built) + stored_texts(site)) == set()
