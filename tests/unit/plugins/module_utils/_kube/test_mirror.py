# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors: the same as a list whatever happens to the watch, own writes always seen, values kept while unchanged."""

from __future__ import annotations

import json
import os
import random
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube import mirror as mirror_module
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, Forbidden, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.mirror import Mirror, Mirrors, MirrorTable, Owed
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import written_selector
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_watch import WatchedLine
from ansible_collections.muster.kube.tests.support.memory_wire import Fault

COURSES = 3000 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 300
SEED = int(os.environ.get("MUSTER_SEED", "1"))
MAPS = "/api/v1/configmaps"
HERE = "/api/v1/namespaces/a/configmaps"
SELECTOR = "kind,!over"


def contents(raw: dict[str, t.Any]) -> tuple[str, str] | None:
    """Name and contents; nothing of what says that nobody wants it."""
    data = raw.get("data") or {}
    return None if data.get("unwanted") else (raw["metadata"]["name"], json.dumps(data))


def what(value: tuple[str, str]) -> str:
    """Only what stands before a dot matters."""
    return value[1].partition(".")[0]


class SteppedMirror(Mirror[t.Any]):
    """A mirror without a thread: the watch runs when it is told to, and brings what there is."""

    def start(self) -> None:
        """Nobody follows by itself."""

    def drain(self) -> None:
        """Take in all that the watch brings."""
        self._over.clear()
        self.follow()
        self._over.clear()

    def pause(self, owed: Owed, seconds: float) -> None:
        """Let the watch go on while time passes."""
        self.drain()
        self._client.sleep(0.1)


def caught_up(table: MirrorTable[t.Any]) -> bool:
    """Whether everything this process wrote is shown."""
    return table.shows(table.owed())


class Stage:
    """A cluster, a client with a mirror of it, and an old-fashioned reader."""

    def __init__(self, path: str = MAPS, selector: str | None = SELECTOR) -> None:
        self.cluster = MemoryCluster()
        for name in "ab":
            self.cluster.add("namespaces", {"metadata": {"name": name}})
        self.line = WatchedLine(self.cluster)
        self.client = self.line.client()
        self.rings: list[int] = []
        self.mirrors = Mirrors(self.client, lambda: self.rings.append(self.cluster.version))
        self.mirrors.mirror_type = SteppedMirror
        self.line.at_end = lambda: self.mirror._over.set()
        self.path, self.selector = path, selector

    def read(self) -> list[tuple[str, str]]:
        return self.mirrors.list(self.path, keep=contents, essence=what, label_selector=self.selector).items

    @property
    def mirror(self) -> SteppedMirror:
        mirror = next(iter(self.mirrors._mirrors.values()))
        assert isinstance(mirror, SteppedMirror)
        return mirror

    def listed(self) -> list[tuple[str, str]]:
        return FreshLists(self.client).list(self.path, keep=contents, label_selector=self.selector).items

    def lists(self) -> int:
        return sum(method == "GET" and path == self.path for method, path, _dry in self.line.sent)

    def add(self, name: str, namespace: str = "a", labels: t.Any = None, **data: str) -> dict[str, t.Any]:
        labels = {"kind": "x"} if labels is None else labels
        return self.cluster.add(
            "configmaps", {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": data}
        )

    def edit(self, name: str, namespace: str = "a", **data: str) -> None:
        self.cluster.change("configmaps", namespace, name, lambda obj: obj.update(data=data))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_it_is_listed_once_and_then_watched(stage: Stage) -> None:
    stage.add("one", text="1")
    assert stage.read() == [("one", '{"text": "1"}')]
    stage.add("two", text="2")
    stage.edit("one", text="3")
    stage.mirror.drain()
    assert sorted(stage.read()) == [("one", '{"text": "3"}'), ("two", '{"text": "2"}')]
    stage.cluster.remove("configmaps", "a", "one")
    stage.mirror.drain()
    assert stage.read() == [("two", '{"text": "2"}')]
    assert stage.lists() == 1


def test_what_is_not_wanted_or_leaves_the_selection_goes(stage: Stage) -> None:
    stage.add("one"), stage.add("two"), stage.add("other", labels={})
    assert len(stage.read()) == 2
    stage.edit("one", unwanted="yes")
    stage.cluster.change("configmaps", "a", "two", lambda obj: obj["metadata"]["labels"].update(over="true"))
    stage.mirror.drain()
    assert stage.read() == []
    assert stage.lists() == 1


def test_values_stay_the_very_same_while_nothing_of_them_changes(stage: Stage) -> None:
    stage.add("one"), stage.add("two")
    first = stage.read()
    assert stage.read() is first
    stage.cluster.change("configmaps", "a", "one", lambda obj: obj["metadata"].update(annotations={"beat": "1"}))
    stage.mirror.drain()
    assert stage.read() is first
    stage.edit("two", text="2")
    stage.mirror.drain()
    assert stage.read()[0] is first[0]
    stage.mirror.relist()
    assert stage.read()[0] is first[0]


def test_what_changed_since_the_last_time_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def changes() -> t.Any:
        return stage.mirrors.list(stage.path, keep=contents, essence=what, label_selector=stage.selector).changes

    stage.add("one", text="1")
    assert changes() is None
    assert changes() == []
    stage.edit("one", text="2")
    stage.add("two")
    stage.mirror.drain()
    first, second = ("one", '{"text": "1"}'), ("one", '{"text": "2"}')
    assert changes() == [(first, second), (None, ("two", "{}"))]
    stage.cluster.remove("configmaps", "a", "one")
    stage.mirror.drain()
    assert changes() == [(second, None)]
    stage.mirror.relist()
    assert changes() is None
    monkeypatch.setattr(mirror_module, "_MOST_CHANGES", 1)
    stage.add("three"), stage.add("four")
    stage.mirror.drain()
    assert changes() is None


def test_what_matters_rings_and_nothing_else(stage: Stage) -> None:
    stage.read()
    stage.mirror.drain()
    assert stage.rings == []
    stage.add("one", text="1.1")
    stage.mirror.drain()
    assert len(stage.rings) == 1
    stage.edit("one", text="1.2")
    stage.mirror.drain()
    assert len(stage.rings) == 1
    stage.edit("one", text="2.2")
    stage.mirror.drain()
    stage.cluster.remove("configmaps", "a", "one")
    stage.mirror.drain()
    assert len(stage.rings) == 3


def test_a_mirror_without_essence_never_rings(stage: Stage) -> None:
    stage.mirrors.list(MAPS, keep=contents)
    stage.add("one")
    stage.mirror.drain()
    assert stage.mirrors.list(MAPS, keep=contents).items
    assert stage.rings == []


# Own writes.


def body(name: str, **labels: str) -> dict[str, t.Any]:
    return {"metadata": {"name": name, "namespace": "a", "labels": {"kind": "x", **labels}}, "data": {}}


def own_writes(stage: Stage) -> None:
    """One of each kind, and one that is no business of the mirror."""
    create(stage.client, HERE, body("new"))
    patch(stage.client, f"{HERE}/old", {"data": {"text": "9"}})
    delete(stage.client, f"{HERE}/gone")
    create(stage.client, HERE, {**body("foreign"), "metadata": {"name": "foreign", "namespace": "a"}})


SHOWN = [("new", "{}"), ("old", '{"text": "9"}')]


@pytest.mark.parametrize("path", [MAPS, HERE])
def test_own_writes_are_waited_for(path: str) -> None:
    stage = Stage(path)
    stage.add("old"), stage.add("gone")
    stage.read()
    own_writes(stage)
    assert not caught_up(stage.mirror.table)
    assert sorted(stage.read()) == SHOWN
    assert stage.lists() == 1


def test_a_watch_that_does_not_show_own_writes_in_time_is_replaced_by_a_list(stage: Stage) -> None:
    stage.add("old"), stage.add("gone")
    stage.read()
    stage.line.watches.late = 100
    own_writes(stage)
    began = stage.cluster.clock.now
    assert sorted(stage.read()) == SHOWN
    assert stage.lists() == 2
    assert 1.0 <= stage.cluster.clock.now - began < 2.0
    # What the watch brings of before is no news, and nothing falls back.
    stage.line.watches.late = 0
    stage.mirror.drain()
    assert sorted(stage.read()) == SHOWN
    assert stage.lists() == 2


def test_an_event_that_came_before_the_answer_is_not_waited_for(stage: Stage) -> None:
    stage.read()
    told = stage.add("fast")
    stage.cluster.remove("configmaps", "a", "fast")
    stage.mirror.drain()
    stage.mirror.table.note(told)
    assert caught_up(stage.mirror.table)


def test_the_order_in_which_threads_tell_of_their_writes_does_not_matter(stage: Stage) -> None:
    stage.add("one")
    stage.read()
    table, told = stage.mirror.table, []
    for number in range(2):
        told.append(patch(stage.client, f"{HERE}/one", {"data": {"text": str(number)}}))
    stage.line.watches.late = 1
    stage.mirror.drain()
    for answer in reversed(told):
        table.note(answer)
    assert not caught_up(table)
    stage.line.watches.late = 0
    stage.mirror.drain()
    assert caught_up(table)
    stage.line.watches.late = 1
    told = [patch(stage.client, f"{HERE}/one", {"data": {"text": "9"}}), delete(stage.client, f"{HERE}/one")]
    stage.mirror.drain()
    for answer in reversed(told):
        table.note(answer)
    assert not caught_up(table)
    stage.line.watches.late = 0
    assert stage.read() == []
    assert stage.lists() == 1


def test_writes_elsewhere_are_not_waited_for(stage: Stage) -> None:
    stage.read()
    create(stage.client, "/api/v1/namespaces/a/secrets", {"metadata": {"name": "s", "namespace": "a"}})
    create(stage.client, HERE, {"metadata": {"name": "foreign", "namespace": "a"}})
    create(stage.client, HERE, body("pretended"), dry_run=True)
    assert caught_up(stage.mirror.table)


def test_an_object_made_and_deleted_by_us_is_not_seen_in_between(stage: Stage) -> None:
    stage.read()
    create(stage.client, HERE, body("brief"))
    stage.line.watches.late = 1
    delete(stage.client, f"{HERE}/brief")
    stage.mirror.drain()
    assert not caught_up(stage.mirror.table)
    stage.line.watches.late = 0
    assert stage.read() == []
    assert stage.lists() == 1


@pytest.mark.parametrize("trouble", ["cut", "refuse"])
def test_a_write_of_unknown_outcome_asks_for_a_list(stage: Stage, trouble: t.Any) -> None:
    stage.read()
    stage.line.watches.late = 100
    stage.line.faults.append(Fault(trouble, methods="POST"))
    with pytest.raises(Exception):  # noqa: B017, PT011
        create(stage.client, HERE, body("new"))
    assert [name for name, _data in stage.read()] == (["new"] if trouble == "cut" else [])
    assert stage.lists() == 2


def test_a_write_while_the_list_is_made_is_not_lost(stage: Stage) -> None:
    stage.read()
    stage.line.watches.late = 100
    stage.line.faults.append(
        Fault("call", methods="GET", path=MAPS, happens=lambda: create(stage.client, HERE, body("new")))
    )
    stage.mirror.table.note(None)
    stage.read()
    assert [name for name, _data in stage.read()] == ["new"]


def test_writes_that_come_while_one_waits_are_for_the_next_read(stage: Stage) -> None:
    stage.read()
    create(stage.client, HERE, body("first"))
    mirror, pause = stage.mirror, stage.mirror.pause
    written: list[str] = []

    def write_meanwhile(owed: Owed, seconds: float) -> None:
        """Others threads of this process go on writing."""
        pause(owed, seconds)
        written.append(f"later-{len(written)}")
        create(stage.client, HERE, body(written[-1]))

    mirror.pause = write_meanwhile  # type: ignore[method-assign]
    assert [name for name, _data in stage.read()] == ["first"]
    assert len(written) == 1
    assert stage.lists() == 1


@pytest.mark.parametrize("act", ["leave", "delete"])
def test_what_is_taken_out_while_the_list_is_made_is_not_shown(stage: Stage, act: str) -> None:
    """The first list is on its way with an object in it that this process takes out meanwhile."""
    stage.add("old")
    table: MirrorTable[t.Any] = MirrorTable(contents, written_selector(SELECTOR))
    take = table.listing()
    entries = [table.entry(obj) for obj in stage.cluster.all("configmaps")]
    version = str(stage.cluster.version)
    if act == "leave":
        told = patch(stage.client, f"{HERE}/old", {"metadata": {"labels": {"over": "true"}}})
    else:
        told = delete(stage.client, f"{HERE}/old")
    table.note(told)
    take([entry for entry in entries if entry is not None], version)
    assert table.read()[0] == []


def test_versions_that_are_no_numbers_ask_for_a_list() -> None:
    table: MirrorTable[t.Any] = MirrorTable(contents, written_selector(SELECTOR))
    table.listing()([], "a1")
    assert caught_up(table)
    table.note({"metadata": {"uid": "u", "resourceVersion": "a2", "labels": {"kind": "x"}}})
    assert table.needs_list(table.owed())
    table.listing()([], "a3")
    assert caught_up(table)


def test_where_a_field_selects_nobody_can_tell_and_a_list_is_made() -> None:
    stage = Stage()
    read = lambda: stage.mirrors.list(MAPS, keep=contents, field_selector="metadata.name=new").items  # noqa: E731
    read()
    stage.line.watches.late = 100
    create(stage.client, HERE, body("new"))
    assert [name for name, _data in read()] == ["new"]


# Watches that fail.


def test_a_cut_connection_goes_on_where_it_was(stage: Stage) -> None:
    stage.read()
    for name in "vwxyz":
        stage.add(name)
    stage.line.watches.cuts = [2, 0, 1]
    stage.mirror.drain()
    assert [name for name, _data in stage.read()] == [*"vwxyz"]
    assert stage.lists() == 1


def test_changes_that_are_no_longer_known_are_listed(stage: Stage) -> None:
    stage.add("old")
    stage.read()
    stage.add("new", text="1")
    stage.cluster.remove("configmaps", "a", "old")
    stage.line.watches.oldest = stage.cluster.version
    stage.mirror.drain()
    assert stage.read() == [("new", '{"text": "1"}')]
    assert stage.lists() == 2
    assert len(stage.rings) == 1


def test_while_no_connection_can_be_had_lists_are_made(stage: Stage) -> None:
    stage.read()
    stage.mirror.lost = True
    stage.add("new")
    assert [name for name, _data in stage.read()] == ["new"]
    stage.mirror.drain()
    assert not stage.mirror.lost
    before = stage.lists()
    stage.read()
    assert stage.lists() == before


def test_a_lost_connection_is_told(stage: Stage) -> None:
    stage.read()
    stage.line.watches.refusals = [500]
    lost: list[bool] = []
    stage.line.wait = lambda _seconds: lost.append(stage.mirror.lost)
    stage.mirror._client.sleep = stage.line.wait
    stage.mirror.drain()
    assert lost == [True]
    assert not stage.mirror.lost


def test_where_watching_is_forbidden_lists_are_made(stage: Stage) -> None:
    stage.read()
    stage.line.watches.refusals = [403]
    stage.mirror.drain()
    stage.add("new")
    assert [name for name, _data in stage.read()] == ["new"]
    assert [name for name, _data in stage.read()] == ["new"]
    assert stage.lists() == 3


def test_a_list_that_is_refused_is_the_readers_business_each_time(stage: Stage) -> None:
    stage.cluster.denials.append(Denial("admin", ["list"], ["configmaps"]))
    for _time in range(2):
        with pytest.raises(Forbidden):
            stage.read()
    stage.cluster.denials.clear()
    stage.add("new")
    assert [name for name, _data in stage.read()] == ["new"]


def test_a_bookmark_brings_the_mirror_on(stage: Stage) -> None:
    stage.read()
    stage.cluster.add("configmaps", {"metadata": {"name": "foreign", "namespace": "a"}})
    stage.mirror.drain()
    assert stage.mirror.table.version == str(stage.cluster.version)
    stage.line.opened.clear()
    stage.mirror.drain()
    assert f"resourceVersion={stage.cluster.version}" in stage.line.opened[0]


def test_mirrors_that_nobody_reads_are_closed(stage: Stage) -> None:
    stage.read()
    unused = stage.mirror
    stage.cluster.clock.advance(601)
    stage.mirrors.list(HERE, keep=contents)
    assert list(stage.mirrors._mirrors.values()) != [unused]
    assert len(stage.mirrors._mirrors) == 1


def test_after_the_end_nobody_listens(stage: Stage) -> None:
    stage.read()
    table = stage.mirror.table
    with stage.mirrors:
        pass
    create(stage.client, HERE, body("new"))
    assert caught_up(table)


# Anything.


class RandomCourse:
    """Changes by others and by us, reads, and a watch with which everything goes wrong."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.stage = Stage(rng.choice([MAPS, HERE]), rng.choice([SELECTOR, None]))
        # At which version of the cluster we wrote an object last, and which of those the mirror is to show.
        self.own: dict[str, int] = {}
        self.here: set[str] = set()
        self.stage.add("a0")
        self.stage.read()

    def play(self) -> None:
        acts = (self.change, self.change, self.write, self.write, self.write, self.spoil, self.spoil, self.read)
        for _step in range(self.rng.randint(5, 40)):
            self.rng.choice(acts)()
        self.stage.line.watches.late, self.stage.line.watches.cuts = 0, []
        self.stage.mirror.drain()
        assert sorted(self.stage.read()) == sorted(self.stage.listed())

    def draw(self) -> tuple[str, str, dict[str, str], dict[str, str]]:
        """Namespace, name, labels and data."""
        home, rng = self.rng.choice("ab"), self.rng
        labels = rng.choice([{"kind": "x"}, {"kind": "x", "over": "true"}, {}])
        return home, f"{home}{rng.randrange(4)}", labels, rng.choice([{}, {"text": "1"}, {"unwanted": "1"}])

    def change(self) -> None:
        """Somebody else does something."""
        home, name, labels, data = self.draw()
        if self.stage.cluster.get("configmaps", home, name) is None:
            self.stage.add(name, home, labels, **data)
        elif self.rng.random() < 0.6:
            self.stage.cluster.change(
                "configmaps", home, name, lambda obj: (obj.update(data=data), obj["metadata"].update(labels=labels))
            )
        else:
            self.stage.cluster.remove("configmaps", home, name)

    def write(self) -> None:
        """We do something."""
        home, name, labels, data = self.draw()
        path, client = f"/api/v1/namespaces/{home}/configmaps", self.stage.client
        before = self.stage.cluster.version
        if self.stage.cluster.get("configmaps", home, name) is None:
            create(client, path, {"metadata": {"name": name, "namespace": home, "labels": labels}, "data": data})
        elif self.rng.random() < 0.6:
            change = {
                "data": {"text": None, "unwanted": None, **data},
                "metadata": {"labels": {"over": None, **labels}},
            }
            patch(client, f"{path}/{name}", change)
        else:
            delete(client, f"{path}/{name}")
        if self.stage.cluster.version == before:
            return
        uid = self.stage.cluster.history[-1].object["metadata"]["uid"]
        self.own[uid] = self.stage.cluster.version
        if self.stage.path == MAPS or home == "a":
            self.here.add(uid)

    def spoil(self) -> None:
        """Something about the watch, or nothing and it goes on."""
        faults, rng = self.stage.line.watches, self.rng
        what = rng.choice(["drain", "drain", "late", "cut", "expire", "bookmark", "refuse"])
        if what == "drain":
            self.stage.mirror.drain()
        elif what == "late":
            faults.late = rng.choice([0, 0, 1, 3, 1000])
        elif what == "cut":
            faults.cuts = [rng.randrange(4) for _cut in range(rng.randrange(4))]
        elif what == "expire":
            faults.oldest = rng.randint(0, self.stage.cluster.version)
        elif what == "bookmark":
            faults.bookmarks = rng.random() < 0.5
        else:
            faults.refusals = [rng.choice([429, 500])]

    def read(self) -> None:
        """What we wrote last is shown as it is, whatever the watch brought; what others wrote may be late."""
        self.stage.read()
        shown = self.stage.mirror.table._values
        keep = self.stage.mirror.table.entry
        present = dict(FreshLists(self.stage.client).list(MAPS, keep=keep, label_selector=self.stage.selector).items)
        last = {change.object["metadata"]["uid"]: change.version for change in self.stage.cluster.history}
        for uid, version in self.own.items():
            if last[uid] <= version and uid in (shown.keys() | present.keys()) & self.here:
                assert shown.get(uid) == present.get(uid), uid


@pytest.mark.parametrize("part", range(5))
def test_after_any_course_the_mirror_shows_what_a_list_shows(part: int) -> None:
    for number in range(part * COURSES // 5, (part + 1) * COURSES // 5):
        RandomCourse(SEED * 100_000 + number).play()


# With threads, over HTTP.


def line(kind: str, name: str, version: int) -> bytes:
    obj = {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def listed(names: str, version: int) -> dict[str, t.Any]:
    items = [{"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}} for name in names]
    return {"kind": "ConfigMapList", "metadata": {"resourceVersion": str(version)}, "items": items}


def test_a_thread_follows_until_the_mirrors_are_closed(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    held, rung = threading.Event(), threading.Event()
    stub.answer("GET", MAPS, reply(listed("a", 5)), reply(chunks=[line("ADDED", "b", 6)], hold=held))
    with Mirrors(client, rung.set) as mirrors:
        # The thread may have been faster than this one.
        names = mirrors.list(MAPS, keep=name_of, essence=str).items
        assert names in (["a"], ["a", "b"])
        assert rung.wait(10)
        assert mirrors.list(MAPS, keep=name_of, essence=str).items == ["a", "b"]
        threads = [item for item in threading.enumerate() if item.name == "muster-kube-mirror"]
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    held.set()
    assert len(stub.seen) == 2


def name_of(raw: dict[str, t.Any]) -> str:
    return str(raw["metadata"]["name"])


def test_a_list_made_anew_ends_the_watch_of_before(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    held, rung = threading.Event(), threading.Event()
    stub.answer(
        "GET",
        MAPS,
        reply(listed("a", 5)),
        reply(chunks=[line("ADDED", "b", 6)], hold=held),
        reply(listed("abc", 9)),
        reply(chunks=[line("ADDED", "d", 10)], hold=held),
    )
    with Mirrors(client, rung.set) as mirrors:
        mirrors.list(MAPS, keep=name_of, essence=str)
        assert rung.wait(10)
        rung.clear()
        next(iter(mirrors._mirrors.values())).table.note(None)
        # The new watch's thread may have been faster than this one.
        names = mirrors.list(MAPS, keep=name_of, essence=str).items
        assert names in (["a", "b", "c"], ["a", "b", "c", "d"])
        assert rung.wait(10)
        assert mirrors.list(MAPS, keep=name_of, essence=str).items == ["a", "b", "c", "d"]
    held.set()
    assert [seen.query.get("resourceVersion") for seen in stub.seen] == [None, "5", None, "9"]


def test_the_client_tells_of_writes_and_only_of_those(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any
) -> None:
    told: list[tuple[str, str, t.Any]] = []
    stop = client.listen(lambda method, path, answer: told.append((method, path, answer and answer.json())))
    stub.answer("POST", MAPS, reply({"metadata": {"name": "a"}}), fault(500), fault(409, "Conflict"))
    create(client, MAPS, {"metadata": {"name": "a"}})
    with pytest.raises(ServerFault):
        create(client, MAPS, {"metadata": {"name": "a"}})
    with pytest.raises(Conflict):
        create(client, MAPS, {"metadata": {"name": "a"}})
    stop()
    assert told == [("POST", MAPS, {"metadata": {"name": "a"}}), ("POST", MAPS, None)]
