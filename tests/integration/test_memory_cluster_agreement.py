# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster in memory answers the same requests as a real API server does: status, reason, whom it is about."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_wire import Line

Object = dict[str, t.Any]
Told = tuple[str, int, str, t.Any, tuple[str, ...]]
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Player:
    """Sends requests and notes what came of them."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        """Nothing sent yet."""
        self.client = client
        self.told: list[Told] = []
        self.maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.namespace = namespace

    def send(self, method: str, path: str, body: t.Any = None, *, patch_type: str = MERGE, **query: t.Any) -> Object:
        """One request; the answer, empty when it was an error."""
        said = {name: value for name, value in query.items() if name != "continue"}
        title = f"{len(self.told)} {method} {path.replace(self.namespace, 'x')} {said}"
        content = patch_type if method == "PATCH" else None
        try:
            answer = self.client.request(
                method, path, query=query or None, body=body, content_type=content, read_retries=False
            )
        except ApiError as error:
            causes = tuple(str(cause.get("reason")) for cause in error.details.get("causes") or ())
            self.told.append((title, error.status, error.reason, error.details.get("kind"), causes))
            return {}
        found = answer.json()
        self.told.append(
            (title, answer.status, str(found.get("status", "")) if found["kind"] == "Status" else "", 0, ())
        )
        return t.cast(Object, found)

    def note(self, what: str, value: t.Any) -> None:
        """Something else to be compared."""
        self.told.append((what, 0, "", value, ()))


def config_map(name: str, **metadata: t.Any) -> Object:
    """An object to play with."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"k": "v"}}


def with_metadata(obj: Object, **metadata: t.Any) -> Object:
    """The object with other metadata."""
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def play_objects(player: Player) -> None:
    """Creating, reading, replacing, patching."""
    maps, send = player.maps, player.send
    made = send("POST", maps, config_map("x", labels={"a": "1"}))
    send("POST", maps, config_map("x"))
    send("POST", maps, config_map("dry"), dryRun="All")
    send("POST", maps, config_map("x"), dryRun="All")
    send("GET", f"{maps}/dry")
    send("POST", maps, config_map("y", resourceVersion="1"))
    send("POST", maps, config_map("y", namespace="other"))
    send("POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    send("POST", "/api/v1/namespaces/no-such-namespace/configmaps", config_map("x"))
    same = send("PUT", f"{maps}/x", made)
    player.note("same", same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"])
    send("PUT", f"{maps}/x", {**made, "data": {"k": "w"}})
    send("PUT", f"{maps}/x", {**made, "data": {"k": "z"}})
    send("PUT", f"{maps}/x", {**config_map("x"), "metadata": {"name": "x", "uid": "another"}})
    send("PUT", f"{maps}/x", config_map("x"))
    send("PUT", f"{maps}/x", config_map("other-name"))
    send("PUT", f"{maps}/no-such", config_map("no-such"))
    send("PUT", f"{maps}/no-such", config_map("no-such", uid="u", resourceVersion="1"))
    send("PUT", f"{maps}/no-such", config_map("no-such", resourceVersion="1"))
    send("PATCH", f"{maps}/x", {"metadata": {"labels": {"a": None, "b": "2"}}})
    player.note("labels", send("GET", f"{maps}/x")["metadata"]["labels"])
    send("PATCH", f"{maps}/no-such", {"data": {}})
    fixed = send("POST", maps, {**config_map("fixed"), "immutable": True})
    send("PUT", f"{maps}/fixed", {**fixed, "data": {"k": "w"}})
    send("PUT", f"{maps}/fixed", with_metadata(fixed, labels={"c": "d"}))


def play_applies(player: Player) -> None:
    """Server-side apply by force: what is made, changed, dropped, and left to others."""
    path = f"{player.maps}/applied"

    def apply(path: str, body: Object, **query: t.Any) -> Object:
        """One of them."""
        return player.send("PATCH", path, body, patch_type=APPLY, fieldManager="test", force="true", **query)

    def data(**entries: str) -> Object:
        """What is described."""
        return {**config_map("applied"), "data": entries}

    apply(path, data(a="1", b="2"), dryRun="All")
    player.send("GET", path)
    made = apply(path, data(a="1", b="2"))
    same = apply(path, data(a="1", b="2"))
    player.note("same", same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"])
    player.send("PATCH", path, {"data": {"a": "9", "c": "3"}})
    for query in ({"dryRun": "All"}, {}):
        player.note("dropped", apply(path, data(a="1"), **query)["data"])
    player.note("stored", player.send("GET", path)["data"])
    apply(path, config_map("another-name"))
    apply("/api/v1/namespaces/no-such-namespace/configmaps/applied", data(a="1"))
    apply("/api/v1/namespaces/no-such-namespace/configmaps/applied", data(a="1"), dryRun="All")


def play_lists(player: Player) -> None:
    """Selectors and pages."""
    maps, send = player.maps, player.send
    for number in range(4):
        send("POST", maps, config_map(f"l{number}", labels={"n": str(number), "list": "yes"}))
    for selector in ("list", "list,n!=1", "n in (1,2)", "list,n notin (1,2)", "!n,list", "n=3", "n==2", "none"):
        found = send("GET", maps, labelSelector=selector)["items"]
        player.note(selector, [item["metadata"]["name"] for item in found])
    player.note("fields", len(send("GET", maps, fieldSelector="metadata.name=l1")["items"]))
    send("GET", maps, fieldSelector="data.k=v")
    page = send("GET", maps, labelSelector="list", limit=3)
    rest = send("GET", maps, labelSelector="list", limit=3, **{"continue": page["metadata"]["continue"]})
    player.note("pages", [item["metadata"]["name"] for item in (*page["items"], *rest["items"])])


def play_deletions(player: Player) -> None:
    """Preconditions, finalizers and what waits for them."""
    maps, send = player.maps, player.send
    made = send("POST", maps, config_map("gone"))
    send("DELETE", f"{maps}/gone", {"preconditions": {"uid": "another"}})
    send("DELETE", f"{maps}/gone", dryRun="All")
    send("DELETE", f"{maps}/gone", {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
    send("POST", maps, config_map("not-dry"))
    send("DELETE", f"{maps}/not-dry", {"kind": "DeleteOptions", "apiVersion": "v1"}, dryRun="All")
    send("GET", f"{maps}/not-dry")
    send("DELETE", f"{maps}/gone", {"preconditions": {"uid": made["metadata"]["uid"]}})
    send("DELETE", f"{maps}/gone")
    send("PUT", f"{maps}/gone", made)
    send("POST", maps, config_map("held", finalizers=["muster-test/hold"]))
    going = send("DELETE", f"{maps}/held")
    player.note("going", "deletionTimestamp" in going["metadata"])
    send("DELETE", f"{maps}/held")
    send("POST", maps, config_map("held"))
    send("PUT", f"{maps}/held", with_metadata(send("GET", f"{maps}/held"), finalizers=[]))
    send("GET", f"{maps}/held")


def play_kinds(player: Player) -> None:
    """Jobs, Leases and kinds that nobody serves."""
    send, jobs, leases = player.send, player.jobs, player.leases
    job = cases.job("j", None)
    job["spec"]["suspend"] = True
    send("POST", jobs, job)
    send("POST", jobs, job)
    send("GET", f"{jobs}/no-such")
    send("GET", "/apis/nobody.example/v1")
    send("GET", "/apis/nobody.example/v1/namespaces/x/things")
    send("GET", f"/apis/batch/v1/namespaces/{player.namespace}/no-such-kind")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    send("PUT", f"{leases}/l", lease)
    send("PUT", f"{leases}/l", lease)
    made = send("GET", f"{leases}/l")
    send("DELETE", f"{leases}/l")
    send("PUT", f"{leases}/l", made)
    send("GET", f"{leases}/l")


def play_the_end(player: Player) -> None:
    """A namespace that is going, held by one object so that it stays for as long as it is looked at."""
    maps, send = player.maps, player.send
    send("POST", maps, config_map("last", finalizers=["muster-test/hold"]))
    send("DELETE", f"/api/v1/namespaces/{player.namespace}")
    send("POST", maps, config_map("late"))
    send("POST", maps, config_map("late"), dryRun="All")
    send("PATCH", f"{maps}/last", {"metadata": {"labels": {"still": "writable"}}})
    send("PATCH", f"{maps}/last", {"metadata": {"finalizers": None}})


def test_the_same_answers(cluster: t.Any) -> None:
    name = "t-memory-agreement"
    memory = MemoryCluster()
    memory.add("namespaces", {"metadata": {"name": name}})
    players = [Player(cluster.client, cluster.namespace(name)), Player(Line(memory).client(), name)]
    for player in players:
        for play in (play_objects, play_applies, play_lists, play_deletions, play_kinds, play_the_end):
            play(player)
    real, ours = (player.told for player in players)
    different = [f"{theirs} {mine[1:]}" for theirs, mine in zip(real, ours, strict=True) if theirs != mine]
    assert not different, "\n".join(different)
