# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of image_build: defaults, refusals, and their way into values."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._args.image_build import (
    build_settings,
    image_build_argument_spec,
    image_build_info_argument_spec,
    image_build_info_terms,
    image_build_terms,
)
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput


def params(**changes):
    spec = image_build_argument_spec()
    return {**{name: entry.get("default") for name, entry in spec.items()}, **changes}


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


def test_the_specification_and_its_hash():
    stack = {"base": "debian:12"}
    terms = image_build_terms(params(stack=stack, image="r.example.com/x", ttl="1h"), True, "1")
    assert terms["spec"].reference.startswith("r.example.com/x:sha-")
    assert (terms["ttl"], terms["check_mode"], terms["namespace"]) == (3600.0, True, "default")
    again = image_build_terms(params(stack=stack, image="r.example.com/x"), True, "2")
    assert again["spec"].spec_hash != terms["spec"].spec_hash
    assert image_build_terms(params(image="debian:12"), False, "1")["spec"] is None
    with pytest.raises(BadInput, match="stack: bas"):
        image_build_terms(params(stack={"bas": "x"}, image="x"), False, "1")


def test_the_question_of_the_info_module():
    spec = image_build_info_argument_spec()
    given = {**{name: entry.get("default") for name, entry in spec.items()}, "label_selectors": ["a=b", "c"]}
    assert image_build_info_terms(given) == {
        "namespace": None,
        "name": None,
        "spec_hash": None,
        "image": None,
        "labels": "a=b,c",
        "log": True,
    }
