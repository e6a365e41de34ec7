# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ladder climbed: step by step the cluster is asked until a step is passed, will never be, or time is up."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.ladder.symptoms import symptoms_of
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    DEFINITION,
    Object,
    ask_all,
    is_served,
    object_path,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, is_passing
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import (
    find_resource,
    get_object,
    list_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import Component
from ansible_collections.muster.kube.plugins.module_utils._model.component.ladder import Step, StepResult
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object, group_and_kind
from ansible_collections.muster.kube.plugins.module_utils._policy.component.health import ObjectHealth, health
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ladder import (
    WORKLOADS,
    expected_objects,
    hooks_of,
    is_ready_slice,
    judge_condition,
    judge_hook,
    judge_nodes,
    judge_workload,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import (
    WEBHOOKS,
    ServiceName,
    calls_only,
)

Report = collections.abc.Callable[[str], None]
Waiting = collections.abc.Generator[None, None, None]
_SLICES = "discovery.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"


class StepLook(t.NamedTuple):
    """What a step looks like now: how many things were judged, and the first that is not as it should be."""

    number: int
    health: ObjectHealth = ObjectHealth(True)
    object: str | None = None
    # The workload whose pods may tell more.
    workload: Object | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Climbed:
    """What is judged: the component's objects as they lie in the cluster, its wishes, and what was rendered."""

    component: Component
    objects: tuple[Object, ...]
    digest: str

    def expected(self) -> list[Object]:
        """What has to be there besides its own objects, whoever makes it."""
        known = {_place_of(obj) for obj in self.objects}
        return [obj for obj in expected_objects(self.component.expects) if _place_of(obj) not in known]


class _NotYet(MusterError):
    """An object that somebody else is to make is not there."""


def _place_of(obj: Object) -> tuple[str, str, str]:
    """Kind and place of an object."""
    return str(obj["kind"]), str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])


class Ladder:
    """One component on the ladder."""

    def __init__(self, client: KubeClient, climbed: Climbed, deadline: float, report: Report) -> None:
        """On the ground."""
        self.results: list[StepResult] = []
        self._client = client
        self._climbed = climbed
        self._expected = climbed.expected()
        self._awaited = {_place_of(obj) for obj in self._expected}
        self._deadline = deadline
        self._report = report
        self._looks: dict[Step, collections.abc.Callable[[], StepLook]] = {
            "source": lambda: StepLook(1),
            "definitions": self._definitions,
            "listable": self._listable,
            "workloads": self._workloads,
            "webhooks": self._webhooks,
            "condition": self._condition,
            "nodes": self._nodes,
        }

    @property
    def problem(self) -> MusterError | None:
        """The step that failed, as an error."""
        failed = next((item for item in self.results if item.outcome == "failed"), None)
        if failed is None:
            return None
        target = f"component {self._climbed.component.name}: {failed.step}"
        return MusterError("wait for", f"{target}: {failed.object}" if failed.object else target, failed.reason)

    def add(self, result: StepResult) -> None:
        """Note what became of a step that is not a matter of looking."""
        self.results.append(result)

    def climb(self, steps: collections.abc.Iterable[Step]) -> Waiting:
        """Take these steps one after the other; each pause is the caller's. Behind a failure none is taken."""
        for step in steps:
            if self.problem is not None:
                self.add(StepResult(step, "skipped", "a step before it failed"))
                continue
            yield from self._take(step)

    def _take(self, step: Step) -> Waiting:
        """One step."""
        started, told = self._client.clock(), ""
        while True:
            look = self._look(step)
            seconds = self._client.clock() - started
            if look.number == 0:
                return self.add(StepResult(step, "skipped", "the component has none"))
            if look.health.ready:
                reason = self._climbed.digest if step == "source" else f"{look.number} looked at"
                return self.add(StepResult(step, "passed", reason, None, seconds))
            if look.health.failed or self._client.clock() > self._deadline:
                more = symptoms_of(self._client, look.workload) if look.workload is not None else ""
                reason = f"{look.health.text}; {more}" if more else look.health.text
                return self.add(StepResult(step, "failed", reason, look.object, seconds))
            if look.health.text != told:
                told = look.health.text
                self._report(f"component {self._climbed.component.name}: waiting for {look.object or step}: {told}")
            yield

    def glance(self, steps: collections.abc.Iterable[Step]) -> list[StepResult]:
        """What the steps look like now, each for itself."""
        for step in steps:
            self._deadline = self._client.clock() - 1.0
            collections.deque(self._take(step), maxlen=0)
        return self.results

    def _look(self, step: Step) -> StepLook:
        """What a step looks like; a server that does not answer well says nothing yet."""
        try:
            return self._looks[step]()
        except MusterError as error:
            failed = not isinstance(error, _NotYet) and not is_passing(error)
            return StepLook(1, ObjectHealth(False, error.cause, failed=failed), error.target)

    def _of(self, *kinds: tuple[str, str]) -> list[Object]:
        """The component's objects of some kinds."""
        return [obj for obj in (*self._climbed.objects, *self._expected) if group_and_kind(obj) in kinds]

    def _live(self, objects: collections.abc.Iterable[Object]) -> list[Object]:
        """Objects as they are now."""
        return ask_all(functools.partial(self._read, obj) for obj in objects)

    def _read(self, obj: Object) -> Object:
        """One object as it is now."""
        info = find_resource(self._client, obj["apiVersion"], obj["kind"])
        live = None if info is None else get_object(self._client, object_path(info, obj))
        if live is None:
            kind = _NotYet if _place_of(obj) in self._awaited else MusterError
            raise kind("read", describe_object(obj), "it is not there")
        return {**live, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}

    def _definitions(self) -> StepLook:
        """All definitions of kinds are established."""
        lives = self._live(self._of(DEFINITION))
        return _first(len(lives), ((health(live), live) for live in lives))

    def _listable(self) -> StepLook:
        """Objects of all defined kinds can be listed; who may not list them is answered by somebody at least."""
        definitions = [obj if "spec" in obj else self._read(obj) for obj in self._of(DEFINITION)]
        for crd in definitions:
            if not is_served(self._client, crd):
                return StepLook(1, ObjectHealth(False, "its kind is not served"), describe_object(crd))
            spec = crd["spec"]
            for version in (item["name"] for item in spec["versions"] if item.get("served")):
                path = resource_path(f"{spec['group']}/{version}", spec["names"]["plural"])
                try:
                    self._client.request("GET", path, query={"limit": 1}, read_retries=False)
                except Forbidden:
                    continue
        return StepLook(len(definitions))

    def _workloads(self) -> StepLook:
        """All workloads have pods, and all of them are available."""
        lives = self._live(self._of(*WORKLOADS))
        look = _first(len(lives), ((judge_workload(live), live) for live in lives))
        sick = next((live for live in lives if describe_object(live) == look.object), None)
        return look._replace(workload=sick)

    def _webhooks(self) -> StepLook:
        """Everybody whom the server calls for the component answers, and can be verified."""
        lives = [
            *self._live(self._of(*WEBHOOKS, DEFINITION, ("apiregistration.k8s.io", "APIService"))),
            *self._own_hooks(),
        ]
        hooks = [(hook, live) for live in lives for hook in hooks_of(live)]
        services = {hook.service for hook, _live in hooks if hook.service is not None}
        ready = {service for service in services if self._has_endpoint(service)}
        shown = self._client.server_time
        now = 0.0 if shown is None else shown.timestamp()
        return _first(len(hooks), ((judge_hook(hook, ready, now), live) for hook, live in hooks))

    def _own_hooks(self) -> list[Object]:
        """Webhook configurations that the component made by itself for its Services."""
        services = {
            ServiceName(obj["metadata"].get("namespace") or "default", obj["metadata"]["name"])
            for obj in self._of(("", "Service"))
        }
        named = {(obj["kind"], obj["metadata"]["name"]) for obj in self._of(*WEBHOOKS)}
        found: list[Object] = []
        for kind in (kind for _group, kind in WEBHOOKS) if services else ():
            info = find_resource(self._client, _ADMISSION, kind)
            try:
                items = [] if info is None else list_objects(self._client, info.path(), keep=lambda raw: raw).items
            except Forbidden:
                continue
            found += [
                item
                for item in items
                if (kind, item["metadata"]["name"]) not in named and calls_only(item, services, ())
            ]
        return found

    def _has_endpoint(self, service: ServiceName) -> bool:
        """Whether some pod behind a Service takes requests."""
        path = resource_path(_SLICES, "endpointslices", service.namespace)
        selector = f"kubernetes.io/service-name={service.name}"
        slices = list_objects(self._client, path, keep=lambda raw: raw, label_selector=selector).items
        return any(map(is_ready_slice, slices))

    def _condition(self) -> StepLook:
        """The component's own condition is met."""
        wanted = self._climbed.component.condition
        if wanted is None:
            return StepLook(0)
        metadata = {"name": wanted.name, **({"namespace": wanted.namespace} if wanted.namespace else {})}
        obj = {"apiVersion": wanted.api_version, "kind": wanted.kind, "metadata": metadata}
        info = find_resource(self._client, wanted.api_version, wanted.kind)
        live = None if info is None else get_object(self._client, object_path(info, obj))
        return StepLook(1, judge_condition(wanted, live), describe_object(obj))

    def _nodes(self) -> StepLook:
        """A node shows that the component works."""
        wanted = self._climbed.component.nodes
        if wanted is None:
            return StepLook(0)
        nodes = list_objects(self._client, resource_path("v1", "nodes"), keep=lambda raw: raw).items
        return StepLook(max(1, len(nodes)), judge_nodes(wanted, nodes))


def _first(count: int, judged: collections.abc.Iterable[tuple[ObjectHealth, Object]]) -> StepLook:
    """The first that is not as it should be; one that will never be goes before those that may."""
    bad = [(found, describe_object(live)) for found, live in judged if not found.ready]
    return StepLook(count) if not bad else StepLook(count, *min(bad, key=lambda item: not item[0].failed))
