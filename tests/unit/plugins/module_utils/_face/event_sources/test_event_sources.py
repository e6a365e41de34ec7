# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event sources as ansible-rulebook runs them: their arguments, how events are handed over, and how they end."""

from __future__ import annotations

import asyncio
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.event_sources import checkpoints, watch
from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.arguments import source_fields
from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.handover import serve
from ansible_collections.muster.kube.plugins.module_utils._flow.events.collection import SourceEnd, SourceWork, Tell
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.event_source import (
    SOURCES,
    RunningSource,
    main_of,
    threads_of_sources,
)
from ansible_collections.muster.kube.tests.support.small_api import SmallApi
from ansible_collections.muster.kube.tests.unit.test_collection import blocks_of

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]
NOWHERE = {"host": "http://127.0.0.1:1"}
POD = {"kind": "Pod"}


def documented(source: str) -> dict[str, t.Any]:
    path = (SOURCES / f"{source}.py").relative_to(REPOSITORY).as_posix()
    return t.cast("dict[str, t.Any]", yaml.safe_load(blocks_of(path)["DOCUMENTATION"])["options"])


@pytest.mark.parametrize(("source", "known"), [("watch", watch._KNOWN), ("checkpoints", checkpoints._KNOWN)])
def test_arguments_are_documented_exactly(source: str, known: tuple[str, ...]) -> None:
    options = documented(source)
    assert set(options) == {*known, *auth_argument_spec()}
    for name, entry in auth_argument_spec().items():
        assert options[name]["type"] == entry["type"]
        assert options[name].get("aliases", []) == entry.get("aliases", [])


def test_what_can_be_said_of_a_kind_is_documented_of_it() -> None:
    assert set(documented("watch")["kinds"]["suboptions"]) == {"api_version", "kind", *watch._OF_A_KIND}


@pytest.mark.parametrize("source", ["watch", "checkpoints"])
def test_examples_are_rulebooks_whose_arguments_are_understood(source: str) -> None:
    path = (SOURCES / f"{source}.py").relative_to(REPOSITORY).as_posix()
    for book in yaml.safe_load(blocks_of(path)["EXAMPLES"]):
        assert {"name", "hosts", "sources", "rules"} <= set(book)
        for entry in book["sources"]:
            args = entry[f"muster.kube.{source}"]
            if source == "watch":
                watch.read_watch(source_fields(source, args, watch._KNOWN))
            else:
                source_fields(source, args, checkpoints._KNOWN)


WRONG = {
    "kinds: it is missing": {},
    "arguments of muster.kube.watch: kind: unknown key; did you mean kinds?": {"kind": "Pod"},
    "kinds[0]: kind: it is missing": {"kinds": [{"api_version": "v1"}]},
    "kinds[0]: a mapping is needed": {"kinds": ["Pod"]},
    "kinds[0]: label_selector: unknown key; did you mean label_selectors?": {"kinds": [{**POD, "label_selector": "a"}]},
    "kinds[0]: types: 'GONE' is none of ADDED, MODIFIED, DELETED": {"kinds": [{**POD, "types": ["GONE"]}]},
    "fields: 'status..phase' is no field": {"kinds": [POD], "fields": ["status..phase"]},
    "namespaces[0]: a text is needed, not 7": {"kinds": [POD], "namespaces": [7]},
    "existing: true or false is needed": {"kinds": [POD], "existing": "maybe"},
    "validate_certs: it is of the wrong type, bool is needed": {"kinds": [POD], "validate_certs": "sometimes"},
    "verify_ssl: it is given twice": {"kinds": [POD], "validate_certs": True, "verify_ssl": True},
}


@pytest.mark.parametrize("message", WRONG)
def test_mistakes_are_named(message: str) -> None:
    args = {**NOWHERE, **WRONG[message]}
    with pytest.raises(BadInput) as error:
        asyncio.run(main_of("watch")(asyncio.Queue(1), args))
    assert message in str(error.value)


def test_a_kind_says_what_others_do_not() -> None:
    kinds = [POD, {**POD, "namespaces": [], "when_changed": "phase", "fields": [r"metadata.labels.a\.b/c"]}]
    shared = {"namespaces": ["a", "b"], "label_selectors": ["x=y", "z"], "context": "", "eda_feedback_queue": object()}
    options = watch.read_watch(source_fields("watch", {"kinds": kinds, **shared}, watch._KNOWN))
    first, second = options.kinds
    assert (list(first.namespaces), first.label_selector, first.field_selector) == (["a", "b"], "x=y,z", None)
    assert (list(second.namespaces), second.label_selector) == ([], "x=y,z")
    assert (first.fields.fields, list(second.fields.matter)) == (None, [("phase",)])
    assert second.fields.fields == [("metadata", "labels", "a.b/c")]


def test_a_server_that_does_not_answer_ends_the_source_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SourceEnd, "sleep", lambda _end, _seconds: None)
    with RunningSource("checkpoints", NOWHERE) as source:
        error = source.wait_for_failure()
    assert "no answer from http://127.0.0.1:1" in str(error)


class DiscoveringApi(SmallApi):
    """Says that there are ConfigMaps; who has listed them and watches them sees no change."""

    def answer(self, method: str, path: str) -> tuple[int, dict[str, t.Any]]:
        if path == "/api/v1":
            return 200, {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]}
        if path in self.lists and (method, path) in self.asked:
            return 200, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}
        return super().answer(method, path)


def test_a_refusal_ends_all_parts() -> None:
    api = DiscoveringApi({"/api/v1/namespaces/a/configmaps": []}, forbidden=["/api/v1/namespaces/b/configmaps"])
    with (
        api.client() as client,
        RunningSource("checkpoints", {"host": client.host, "namespaces": ["a", "b"]}) as source,
    ):
        error = source.wait_for_failure()
    assert "Cannot list configmaps" in str(error)


# The hand-over.


class Counting:
    """A part that tells numbers until it is over."""

    def __init__(self) -> None:
        self.told = 0
        self.end = SourceEnd()

    def __call__(self, tell: Tell) -> None:
        while True:
            tell({"number": self.told})
            self.told += 1

    def work(self, *others: t.Callable[[Tell], None]) -> SourceWork:
        return SourceWork([self, *others], self.end.come)


def test_a_full_queue_keeps_the_thread_waiting_and_its_end_frees_it() -> None:
    part = Counting()

    async def take_two() -> list[int]:
        queue: asyncio.Queue[t.Any] = asyncio.Queue(1)
        task = asyncio.create_task(serve(part.work(), queue))
        taken = [(await queue.get())["number"] for _turn in range(2)]
        while queue.empty():
            await asyncio.sleep(0)
        # Whatever time passes, it gets no further than one place allows.
        for _turn in range(100):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return taken

    assert asyncio.run(take_two()) == [0, 1]
    assert part.told <= 4
    assert threads_of_sources() == []


def test_a_part_that_fails_ends_the_others() -> None:
    part = Counting()

    def fails(_tell: Tell) -> None:
        raise BadInput("watch", "this", "it is made by the test")

    with pytest.raises(BadInput, match="made by the test"):
        asyncio.run(serve(part.work(fails), asyncio.Queue(1)))
    assert threads_of_sources() == []


def test_a_part_that_rests_wakes_up_at_the_end() -> None:
    end = SourceEnd()

    async def cancel_soon() -> None:
        task = asyncio.create_task(serve(SourceWork([lambda _tell: end.sleep(None)], end.come), asyncio.Queue(1)))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_soon())
    assert threads_of_sources() == []


# The rulebook.

RULEBOOK = yaml.safe_load((REPOSITORY / "extensions/eda/rulebooks/elastic.yml").read_text())


def test_the_rulebook_gives_its_sources_what_they_understand() -> None:
    (book,) = RULEBOOK
    for entry in book["sources"]:
        if "muster.kube.watch" in entry:
            args = {**entry["muster.kube.watch"], "namespaces": []}
            kinds = [{**kind, "namespaces": []} if "namespaces" in kind else kind for kind in args["kinds"]]
            watch.read_watch(source_fields("watch", {**args, "kinds": kinds}, watch._KNOWN))
        elif "muster.kube.checkpoints" in entry:
            source_fields("checkpoints", entry["muster.kube.checkpoints"], checkpoints._KNOWN)
        else:
            assert "eda.builtin.range" in entry


def test_the_rulebook_and_its_playbook_know_the_same_variables() -> None:
    playbook = (REPOSITORY / "playbooks/elastic.yml").read_text()
    (book,) = RULEBOOK
    for name in book["rules"][0]["action"]["run_playbook"]["extra_vars"]:
        assert f"{name} | default" in playbook
