# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of image_build: defaults, refusals, and their way into values."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face import build_settings as settings_file
from ansible_collections.muster.kube.plugins.module_utils._face.build_settings import build_settings
from ansible_collections.muster.kube.plugins.module_utils._face.modules.image_build import FACE
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def params(**changes):
    return {**{name: entry.get("default") for name, entry in FACE.spec.items()}, **changes}


def settings(engine="job", **changes):
    return build_settings(params(**changes), engine)


def test_defaults():
    made = settings()
    assert (made.tier, made.timeout, made.start_timeout, made.push) == (None, 3600.0, 600.0, True)
    assert made.builder_image == "quay.io/buildah/stable:v1.43.0"
    assert made.requests == {"cpu": "500m", "memory": "512Mi"}
    assert (made.limits, made.cache, made.host_network) == ({}, None, False)


def test_a_limit_takes_the_place_of_a_default_request():
    assert settings(limits={"memory": "128Mi"}).requests == {"cpu": "500m"}
    assert settings(limits={"memory": "128Mi"}, requests={}).requests == {}


def test_values():
    made = settings(
        tier="privileged",
        requests={"cpu": 2},
        hardware={"node_selector": {"a": "b"}},
        tolerations=[{"key": "t"}],
        insecure_registries=["r:5000"],
        cache="r:5000/cache",
        timeout="5m",
    )
    assert (made.tier, made.requests, made.cache, made.timeout) == ("privileged", {"cpu": "2"}, "r:5000/cache", 300.0)
    assert made.hardware.node_selector == (("a", "b"),)
    assert made.insecure_registries == ("r:5000",)
    assert settings(cache="none").cache is None
    assert settings("podman").push is False
    assert settings("podman", push=True).push is True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"push": False}, "would be lost"),
        ({"timeout": "0"}, "timeout"),
        ({"timeout": "soon"}, "duration"),
        ({"tier": "userns", "host_network": True}, "user namespace"),
        ({"limits": {"cpu": []}}, "limits: cpu"),
        ({"limits": {"cpu": True}}, "limits: cpu"),
        ({"hardware": {"cpus": 1}}, "hardware"),
        ({"insecure_registries": ["a b"]}, "insecure_registries"),
        ({"cache": "a:b"}, "cache"),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(BadInput, match=words):
        settings(**changes)


def test_the_specification_and_its_hash(monkeypatch):
    stack = {"base": "debian:12"}
    terms = FACE.options(params(stack=stack, image="r.example.com/x", ttl="1h"), True)
    assert terms.spec.reference.startswith("r.example.com/x:sha-")
    assert (terms.ttl, terms.check_mode, terms.namespace) == (3600.0, True, "default")
    monkeypatch.setattr(settings_file, "GENERATOR_VERSION", "another")
    again = FACE.options(params(stack=stack, image="r.example.com/x"), True)
    assert again.spec.spec_hash != terms.spec.spec_hash
    assert FACE.options(params(image="debian:12"), False).spec is None
    with pytest.raises(BadInput, match="stack: bas"):
        FACE.options(params(stack={"bas": "x"}, image="x"), False)
