# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of reading: pages, expired tokens, the garbage collector, single objects, discovery."""

from __future__ import annotations

import gc
import json
import threading
import typing as t
from functools import partial

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Gone, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import (
    ResourceInfo,
    authenticated_user,
    decode_text,
    find_resource,
    get_object,
    list_objects,
    without_gc,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(200))
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


def page(
    names: t.Iterable[str], token: str | None = None, version: str = "7", kind: str = "PodList"
) -> dict[str, t.Any]:
    metadata = {"resourceVersion": version, **({"continue": token} if token else {})}
    items = [{"metadata": {"name": name}} for name in names]
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items}


def name_of(obj: dict[str, t.Any]) -> str:
    return str(obj["metadata"]["name"])


def test_pages_are_followed_and_only_what_is_wanted_stays(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply(page("ab", "t1")), reply(page("cd", "t2", version="8")), reply(page("e")))
    listing = list_objects(client, PODS, keep=name_of, limit=2, label_selector="a=b", field_selector="x!=y")
    assert (listing.items, listing.resource_version, len(stub.seen)) == (list("abcde"), "7", 3)
    selectors = {"limit": "2", "labelSelector": "a=b", "fieldSelector": "x!=y"}
    assert [seen.query for seen in stub.seen] == [
        selectors,
        {**selectors, "continue": "t1"},
        {**selectors, "continue": "t2"},
    ]


def test_next_page_is_asked_for_while_this_one_is_decoded(
    stub: t.Any, client: KubeClient, reply: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()
    answer = stub.next_reply

    def notice(seen: t.Any) -> t.Any:
        if seen.query.get("continue") == "t1":
            asked.set()
        return answer(seen)

    monkeypatch.setattr(stub, "next_reply", notice)
    stub.answer("GET", PODS, reply(page("a", "t1")), reply(page("b")))
    listing = list_objects(client, PODS, keep=lambda obj: (name_of(obj), asked.wait(10)))
    assert listing.items == [("a", True), ("b", True)]


def test_lists_with_the_metadata_at_their_end_are_followed_too(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    ordered = [dict(sorted(page(names, token).items())) for names, token in (("a", "t1"), ("b", None))]
    assert list(ordered[0]) == ["apiVersion", "items", "kind", "metadata"]
    stub.answer("GET", PODS, *(reply(body) for body in ordered))
    assert list_objects(client, PODS, keep=name_of).items == ["a", "b"]


def test_none_is_not_kept(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply(page("abc")))
    listing = list_objects(client, PODS, keep=lambda obj: None if name_of(obj) == "b" else name_of(obj))
    assert listing.items == ["a", "c"]


def test_items_know_their_kind(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", NODES, reply(page("a", kind="NodeList")))
    kinds = list_objects(client, NODES, keep=lambda obj: (obj["apiVersion"], obj["kind"])).items
    assert kinds == [("v1", "Node")]


def test_empty_collection(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply({"kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": None}))
    listing = list_objects(client, PODS, keep=name_of)
    assert (listing.items, listing.resource_version, len(stub.seen)) == ([], "3", 1)


def test_expired_token_starts_the_list_again(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    expired = fault(410, "Expired", "the provided continue parameter is too old", metadata={"continue": "inconsistent"})
    stub.answer("GET", PODS, reply(page("ab", "t1")), expired, reply(page("ac", "t2", "9")), reply(page("d")))
    listing = list_objects(client, PODS, keep=name_of)
    assert (listing.items, listing.resource_version) == (["a", "c", "d"], "9")
    assert [seen.query.get("continue") for seen in stub.seen] == [None, "t1", None, "t2"]


def test_relisting_has_an_end(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    stub.answer("GET", PODS, fault(410, "Expired", "too old"))
    with pytest.raises(Gone):
        list_objects(client, PODS, keep=name_of)
    assert len(stub.seen) == 4


def test_a_page_that_fails_once_is_asked_for_again(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    stub.answer("GET", PODS, reply(page("a", "t1")), fault(503), reply(cut=True), reply(page("b")))
    assert list_objects(client, PODS, keep=name_of).items == ["a", "b"]
    assert [seen.query.get("continue") for seen in stub.seen] == [None, "t1", "t1", "t1"]


@pytest.mark.parametrize("body", [b"<html>login</html>", b"[]"])
def test_answer_of_something_else_is_told(stub: t.Any, client: KubeClient, reply: t.Any, body: bytes) -> None:
    stub.answer("GET", PODS, reply(body))
    with pytest.raises(Unreachable, match="Cannot list pods: the answer is not"):
        list_objects(client, PODS, keep=name_of)


def test_gc_is_off_while_decoding_and_back_afterwards(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply(page("ab")))
    states = list_objects(client, PODS, keep=lambda obj: gc.isenabled()).items
    assert states == [False, False]
    assert gc.isenabled()


def test_a_page_is_gone_before_the_gc_is_back(
    stub: t.Any, client: KubeClient, reply: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it walks over all that was decoded, once for each page."""
    left: list[int] = []
    enable = gc.enable

    def count_and_enable() -> None:
        left.append(sum(isinstance(item, dict) and "read by this test" in item for item in gc.get_objects()))
        enable()

    pages = [page("ab", "t1"), page("cd")]
    for body in pages:
        for item in body["items"]:
            item["read by this test"] = True
    stub.answer("GET", PODS, *(reply(json.dumps(body).encode()) for body in pages))
    del pages, body, item
    monkeypatch.setattr(gc, "enable", count_and_enable)
    assert list_objects(client, PODS, keep=name_of).items == list("abcd")
    assert left == [0, 0]


def managed(*managers: str) -> dict[str, t.Any]:
    """A pod with these managers of fields."""
    fields = {"f:spec": {'k:{"name":"main"}': {".": {}, "f:image": {}}}}
    entries = [{"manager": name, "operation": "Update", "fieldsV1": fields} for name in managers]
    return {"metadata": {"name": "a", "managedFields": entries}, "spec": {"nodeName": "n"}}


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (PODS, 0),
        ("/api/v1/namespaces/team/pods", 0),
        (NODES, 0),
        ("/api/v1/pods/a", 2),
        ("/api/v1/configmaps", 2),
        ("/apis/workload.codeflare.dev/v1beta1/appwrappers", 2),
    ],
)
def test_who_set_fields_is_not_even_decoded_of_pods_and_nodes(
    path: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text: decoded.append(text) or loads(text))
    body = {"items": [managed("kubelet", "kubectl"), managed("kubelet", "kubectl"), {"metadata": {"name": "b"}}]}
    text = json.dumps(body, separators=(",", ":")).encode()
    seen = decode_text(path, text)
    assert [len(item["metadata"].get("managedFields", ())) for item in seen["items"]] == [kept, kept, 0]
    assert [item["metadata"]["name"] for item in seen["items"]] == ["a", "a", "b"]
    assert [item.get("spec") for item in seen["items"]] == [{"nodeName": "n"}, {"nodeName": "n"}, None]
    assert [part.count(b"fieldsV1") for part in decoded] == [2 * kept]


@pytest.mark.parametrize(
    "name",
    [
        "]",
        "x}]}",
        '}]},"spec":{}}',
        '}],"a":"',
        "\\]",
        '"managedFields":[',
        '\\"managedFields":[{}]',
        "},{]",
        "[[",
        "}]}]}",
    ],
)
def test_managers_of_any_name_change_nothing_else(name: str) -> None:
    pod = {**managed("kubelet", name), "status": {"message": '"managedFields":[{}]', name: ["]"]}}
    for keys_sorted in (False, True):
        text = json.dumps({"items": [pod, pod]}, separators=(",", ":"), sort_keys=keys_sorted).encode()
        seen = decode_text(PODS, text)
        for item in seen["items"]:
            item["metadata"]["managedFields"] = pod["metadata"]["managedFields"]
        assert seen == {"items": [pod, pod]}


WORDS = st.text(st.sampled_from('a"\\\\[]{},:é') | st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["managedFields", '"managedFields":[', 'x"managedFields', ']}},"spec":{', "],"]
)
FIELDS = st.recursive(st.just({}), lambda inner: st.dictionaries(WORDS.map("f:{}".format), inner, max_size=2))


@st.composite
def listed_objects(draw: st.DrawFn) -> dict[str, t.Any]:
    """A pod whose managers, labels and texts are any text."""
    metadata: dict[str, t.Any] = {"name": draw(WORDS), "labels": draw(st.dictionaries(WORDS, WORDS, max_size=2))}
    if draw(st.booleans()):
        metadata["managedFields"] = [
            {"manager": draw(WORDS), "operation": "Update", "fieldsV1": draw(FIELDS), "subresource": draw(WORDS)}
            for _entry in range(draw(st.integers(0, 2)))
        ]
    return {"metadata": metadata, "spec": {"args": draw(st.lists(WORDS, max_size=2))}}


@steady
@given(st.lists(listed_objects(), max_size=3), st.sampled_from(["list", "event"]), st.booleans())
def test_all_else_is_decoded_as_ever(items: list[dict[str, t.Any]], form: str, in_ascii: bool) -> None:
    for body in [{"kind": "PodList", "items": items}] if form == "list" else [{"object": item} for item in items]:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=in_ascii).encode()
        seen, whole = decode_text(PODS, text), json.loads(text)
        assert without_managers(seen) == without_managers(whole)


def without_managers(body: dict[str, t.Any]) -> dict[str, t.Any]:
    """A list or an event without who set which field."""
    for item in body["items"] if "items" in body else [body["object"]]:
        assert isinstance(item["metadata"].pop("managedFields", []), list)
    return body


def test_half_a_text_is_none() -> None:
    text = json.dumps(managed("kubelet"), separators=(",", ":")).encode()
    for end in range(1, len(text)):
        with pytest.raises(json.JSONDecodeError):
            decode_text(PODS, text[:end])


def test_gc_is_back_after_an_error(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply(page("ab")))
    with pytest.raises(KeyError):
        list_objects(client, PODS, keep=lambda obj: obj["missing"])
    assert gc.isenabled()


def test_gc_stays_off_until_the_last_user_is_done_and_off_if_it_was_off() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with without_gc():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with without_gc():
        thread.start()
        assert inside.wait(10)
        with without_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert not gc.isenabled()
    leave.set()
    thread.join(10)
    assert gc.isenabled()
    gc.disable()
    try:
        with without_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_many_lists_at_once_come_back_by_name(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply(page("ab")))
    stub.answer("GET", NODES, reply(page("n")))
    found = parallel([partial(list_objects, client, path, keep=name_of) for path in (PODS, NODES)])
    assert [listing.items for listing in found] == [["a", "b"], ["n"]]


def test_one_refused_list_is_raised(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    stub.answer("GET", PODS, reply(page("ab")))
    stub.answer("GET", NODES, fault(403, "Forbidden"))
    with pytest.raises(Forbidden, match="Cannot list nodes"):
        parallel([partial(list_objects, client, path, keep=name_of) for path in (PODS, NODES)])


def test_object_or_none(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", "/api/v1/nodes/a", reply({"kind": "Node"}))
    assert get_object(client, "/api/v1/nodes/a") == {"kind": "Node"}
    assert get_object(client, "/api/v1/nodes/b") is None


RAY = {
    "resources": [
        {"name": "rayclusters", "kind": "RayCluster", "namespaced": True, "verbs": ["get", "list"]},
        {"name": "rayclusters/status", "kind": "RayCluster", "namespaced": True, "verbs": ["patch"]},
    ]
}


def test_kind_is_found_and_remembered(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", "/apis/ray.io/v1", reply(RAY))
    found = find_resource(client, "ray.io/v1", "RayCluster")
    assert found == ResourceInfo("ray.io/v1", "RayCluster", "rayclusters", True)
    assert found.path("lab", "a") == "/apis/ray.io/v1/namespaces/lab/rayclusters/a"
    assert find_resource(client, "ray.io/v1", "rayclusters") == found
    assert len(stub.seen) == 1


def test_missing_kind_is_asked_for_again(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    assert find_resource(client, "ray.io/v1", "RayCluster") is None
    stub.answer("GET", "/apis/ray.io/v1", reply({"resources": []}), reply(RAY))
    assert find_resource(client, "ray.io/v1", "RayCluster") is None
    assert find_resource(client, "ray.io/v1", "RayCluster") is not None
    assert len(stub.seen) == 3


def test_cluster_wide_kind_has_no_namespace_in_its_path() -> None:
    info = ResourceInfo("v1", "Node", "nodes", False)
    assert info.path("lab", "a") == "/api/v1/nodes/a"


@pytest.mark.parametrize(
    ("body", "user"),
    [
        ({"status": {"userInfo": {"username": "ann@example.com"}}}, "ann@example.com"),
        ({"status": {"userInfo": {"username": ""}}}, None),
        ({"status": None}, None),
    ],
)
def test_the_server_tells_who_we_are(
    stub: t.Any, client: KubeClient, reply: t.Any, body: t.Any, user: str | None
) -> None:
    stub.answer("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", reply(body, 201))
    assert authenticated_user(client) == user


@pytest.mark.parametrize("status", [403, 404])
def test_a_server_that_does_not_tell_who_we_are_is_no_error(
    stub: t.Any, client: KubeClient, fault: t.Any, status: int
) -> None:
    stub.answer("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", fault(status))
    assert authenticated_user(client) is None
