# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders are taken apart as helm itself does it, and compared without what is made anew each time."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import HelmRevision
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import (
    MADE_ANEW,
    HelmOwner,
    HelmRender,
    agreed,
    agreed_render,
    as_helm_writes,
    is_helms_to_repair,
    is_kept,
    matches,
    owner_in_words,
    owner_of,
    same_objects,
    split_text,
    take_apart,
)
from hypothesis import given
from hypothesis import strategies as st

TEXT = """\
---
# Source: widget/crds/two.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: one}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: two, creationTimestamp: null}
status: {conditions: []}
---
# Source: widget/charts/sub/crds/three.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: three}

---
# Source: widget/templates/crds/four.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: four}
---
# Source: widget/templates/map.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: map, labels: {a: b, empty: }}
data:
  text: |
    --- no end
---
# Source: widget/templates/empty.yaml
---
# Source: widget/templates/list.yaml
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: listed}}
---
# Source: widget/templates/hook.yaml
apiVersion: batch/v1
kind: Job
metadata: {name: hook, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
"""


def render(text):
    """A text taken apart."""
    return take_apart((part, load_yaml(part.text, part.source)) for part in split_text(text))


def names(objects):
    return [obj["metadata"]["name"] for obj in objects]


def config_map(name="map", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_objects_hooks_and_definitions_are_told_apart():
    found = render(TEXT)
    assert names(found.definitions) == ["one", "two", "three"]
    assert names(found.objects) == ["four", "map", "listed"]
    assert names(found.hooks) == ["hook"]
    assert found.objects[1]["data"] == {"text": "--- no end\n"}


def test_what_nobody_asks_for_is_left_out():
    found = render(TEXT)
    assert found.definitions[1]["metadata"] == {"name": "two"}
    assert "status" not in found.definitions[1]
    assert found.objects[1]["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    "text", ["just words", "kind: X\nmetadata: {name: a}", "apiVersion: v1\nkind: X\nmetadata: {}"]
)
def test_what_is_no_object_is_refused_with_its_file(text):
    with pytest.raises(BadInput, match=r"widget/templates/a\.yaml"):
        render(f"---\n# Source: widget/templates/a.yaml\n{text}\n")


def test_the_digest_counts_content_and_not_order():
    one, other = HelmRender((config_map("a"), config_map("b"))), HelmRender((config_map("b"), config_map("a")))
    assert one.digest(("w", "1"), {}) == other.digest(("w", "1"), {})
    assert one.digest(("w", "1"), {}) != one.digest(("w", "2"), {})
    assert one.digest(("w", "1"), {}) != one.digest(("w", "1"), {"a": 1})
    hooked = HelmRender(one.objects, (config_map("h"),))
    assert one.digest(("w", "1"), {}) != hooked.digest(("w", "1"), {})
    assert len(one.digest(("w", "1"), {})) <= 63


def test_the_public_digest_tells_nothing_of_secrets():
    one = {**config_map("a", password="one"), "kind": "Secret"}
    other = {**config_map("a", password="two"), "kind": "Secret"}
    assert HelmRender((one,)).public_digest() == HelmRender((other,)).public_digest()
    assert HelmRender((config_map(a="1"),)).public_digest() != HelmRender((config_map(a="2"),)).public_digest()


def test_what_is_made_anew_by_each_render_is_not_compared():
    one, other = config_map(password="a", user="u"), config_map(password="b", user="u")
    pattern = agreed_render(HelmRender((one,)), HelmRender((other,)))
    assert pattern.objects[0]["data"] == {"password": MADE_ANEW, "user": "u"}
    assert same_objects(pattern.objects, (config_map(password="c", user="u"),))
    assert not same_objects(pattern.objects, (config_map(password="c", user="v"),))
    assert not same_objects(pattern.objects, (config_map(password="c", user="u", more="m"),))


def test_renders_with_another_number_of_objects_tell_nothing():
    pattern = agreed_render(HelmRender((config_map(),)), HelmRender(()))
    assert pattern.objects == ({"kind": MADE_ANEW},)
    assert not same_objects(pattern.objects, (config_map(),))


def test_objects_are_compared_in_any_order_and_of_any_version():
    one, other = config_map("a"), config_map("b")
    assert same_objects((one, other), (other, one))
    assert not same_objects((one,), (one, other))
    newer = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    assert not same_objects((newer,), ({**newer, "apiVersion": "apps/v1beta1"},))


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(TREES, TREES)
def test_what_two_renders_agree_on_matches_both(one, other):
    pattern = agreed(one, other)
    assert matches(pattern, copy.deepcopy(one))
    assert matches(pattern, copy.deepcopy(other))
    assert matches(one, other) == (one == other) or MADE_ANEW in repr(one)


def test_helm_puts_its_objects_into_the_namespace_of_the_release_and_tells_whose_they_are():
    release = HelmRevision("w", "home", 1, "")
    found = as_helm_writes(config_map(), release, namespaced=True)
    assert found["metadata"]["namespace"] == "home"
    assert owner_of(found) == HelmOwner("w", "home")
    elsewhere = {**config_map(), "metadata": {"name": "a", "namespace": "other", "labels": {"x": "y"}}}
    assert as_helm_writes(elsewhere, release, namespaced=True)["metadata"]["namespace"] == "other"
    wide = as_helm_writes(elsewhere, release, namespaced=False)
    assert "namespace" not in wide["metadata"]
    assert wide["metadata"]["labels"] == {"x": "y", "app.kubernetes.io/managed-by": "Helm"}


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"labels": {"app.kubernetes.io/managed-by": "argo"}}, "what is managed by argo"),
        ({"managedFields": [{"manager": "kubectl"}]}, "what kubectl wrote"),
        ({}, "nobody that it tells of"),
        ({"annotations": {"meta.helm.sh/release-name": "w"}}, "nobody that it tells of"),
    ],
)
def test_an_object_that_helm_does_not_own_tells_whose_it_is(metadata, words):
    live = {"kind": "ConfigMap", "metadata": metadata}
    assert owner_of(live) is None
    assert owner_in_words(live) == words


def test_an_object_of_a_release_tells_which():
    live = as_helm_writes(config_map(), HelmRevision("w", "home", 1, ""), namespaced=True)
    assert owner_in_words(live) == "the helm release home/w"


@pytest.mark.parametrize(
    ("group", "helms"),
    [("", True), ("apps", True), ("rbac.authorization.k8s.io", True), ("ray.io", False), ("kueue.x-k8s.io", False)],
)
def test_helm_repairs_kinds_it_knows_only(group, helms):
    assert is_helms_to_repair({"apiVersion": f"{group}/v1".lstrip("/"), "kind": "X"}) is helms


def test_what_a_chart_wants_to_keep_is_kept():
    assert is_kept({"metadata": {"annotations": {"helm.sh/resource-policy": " Keep"}}})
    assert not is_kept({"metadata": {}})
