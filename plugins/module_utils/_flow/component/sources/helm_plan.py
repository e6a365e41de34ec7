# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to be done for a release: rendered by helm, compared by the server's dry run, decided without either.

How the release stands is read from helm's own Secrets. Nothing is written here; check mode is this plan.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import itertools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.chart import Chart
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import HelmProgram
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    Known,
    Label,
    ObjectChange,
    ask_all,
    compare,
    object_path,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.capabilities import (
    ServerCapabilities,
    read_capabilities,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.releases import list_revisions, read_whole
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import (
    HelmMark,
    HelmRelease,
    HelmRevision,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    Object,
    describe_object,
    group_and_kind,
    versionless_key,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_decision import (
    HelmDecision,
    LiveDifference,
    Standing,
    decide,
    decide_removal,
    judge_history,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import (
    HelmOwner,
    HelmRender,
    agreed_render,
    as_helm_writes,
    flattened,
    is_kept,
    owner_in_words,
    owner_of,
    same_objects,
    split_text,
    take_apart,
)

Objects = tuple[Object, ...]
_EMPTY = HelmRender(())


@dataclasses.dataclass(frozen=True, slots=True)
class HelmPlan:
    """What is to be done for one release."""

    source: HelmSource
    decision: HelmDecision
    standing: Standing
    chart: Chart | None = None
    # The last revision that counts, as helm keeps it.
    release: HelmRelease | None = None
    render: HelmRender = _EMPTY
    mark: HelmMark | None = None
    # What becomes of what is applied before helm runs, definitions among it, and of the release's own objects, as far
    # as the server could be asked.
    first: tuple[ObjectChange, ...] = ()
    changes: tuple[ObjectChange, ...] = ()
    # What unfinished revisions made and nobody asks for any more.
    leftovers: Objects = ()
    # What helm leaves behind because its chart says so.
    kept: Objects = ()
    # What is there of its objects and is somebody else's.
    foreign: Objects = ()


def plan_release(
    client: KubeClient,
    helm: HelmProgram,
    chart: Chart,
    source: HelmSource,
    *,
    first: collections.abc.Iterable[Object] = (),
    label: Label | None = None,
    known: Known | None = None,
    rolling_back: bool = False,
) -> HelmPlan:
    """What has to be done so that the release is as the source says.

    First names what is applied before helm runs besides the chart's definitions, such as the namespace; both get the
    label. rolling_back tells that a run of ours had begun to go back to an earlier revision.
    """
    standing = judge_history(
        list_revisions(client, source.namespace, source.release), source.component, rolling_back=rolling_back
    )
    if standing.situation in ("foreign", "busy", "stuck"):
        decision = decide(standing, same_source=False, differences=())
        release = read_whole(client, standing.last) if standing.last is not None else None
        return HelmPlan(source, decision, standing, chart, release)
    return _Planning(client, helm, chart, source, standing).plan(tuple(first), label, known or Known())


def plan_removal(client: KubeClient, source: HelmSource, *, rolling_back: bool = False) -> HelmPlan:
    """What has to be done so that the release is gone, with what unfinished revisions made."""
    revisions = list_revisions(client, source.namespace, source.release)
    standing = judge_history(revisions, source.component, rolling_back=rolling_back)
    decision = decide_removal(standing)
    if not decision.finish_removal:
        return HelmPlan(source, decision, standing)
    release = read_whole(client, revisions[-1])
    named = read_objects(release)
    # helm removes what its last revision names. An unfinished one may name less than those before it.
    others = [standing.last, *standing.abandoned]
    before = [obj for item in others if item is not None for obj in read_objects(read_whole(client, item))]
    leftovers = _ours_of(client, source, before, named)
    return HelmPlan(
        source,
        decision,
        standing,
        release=release,
        leftovers=tuple(obj for obj in leftovers if not is_kept(obj)),
        kept=tuple(obj for obj in (*named, *leftovers) if is_kept(obj)),
    )


class _Planning:
    """One comparison of a source with the cluster."""

    def __init__(
        self, client: KubeClient, helm: HelmProgram, chart: Chart, source: HelmSource, standing: Standing
    ) -> None:
        """Nothing is rendered yet."""
        self._client = client
        self._helm = helm
        self._chart = chart
        self._source = source
        self._standing = standing
        self._server: ServerCapabilities = read_capabilities(client)
        # While a removal is to be finished, what its revision says does not matter any more.
        last = standing.last if standing.situation == "ours" else None
        self._release = read_whole(client, last) if last is not None else None

    def plan(self, first: Objects, label: Label | None, known: Known) -> HelmPlan:
        """The whole plan."""
        self._server = self._server.with_definitions(known.definitions)
        one, pattern, same = self._judge_source()
        stored = read_objects(self._release)
        wanted = stored if same else one.objects
        desired = self._placed(wanted, one.definitions)
        foreign = self._foreign(desired, () if self._release is None else self._placed(stored, one.definitions))
        if foreign:
            words = "; ".join(f"{describe_object(obj)} is of {owner_in_words(obj)}" for obj in foreign)
            decision = HelmDecision("found" if self._standing.last is None else "refused", words=words)
            return HelmPlan(
                self._source, decision, self._standing, self._chart, self._release, one, foreign=tuple(foreign)
            )
        before = compare(self._client, [*first, *one.definitions], label, known)
        changes = compare(self._client, desired, None, known.after(before))
        decision = decide(self._standing, same_source=same, differences=_differences(changes, desired))
        mark = HelmMark(self._source.component, self._digest(pattern), self._standing.next_revision)
        begun = [obj for item in self._standing.abandoned for obj in read_objects(read_whole(self._client, item))]
        leftovers = _ours_of(self._client, self._source, begun, (*stored, *one.objects))
        return HelmPlan(
            self._source,
            decision,
            self._standing,
            self._chart,
            self._release,
            one,
            mark,
            tuple(before),
            tuple(changes),
            tuple(leftovers),
        )

    def _judge_source(self) -> tuple[HelmRender, HelmRender, bool]:
        """The render, the same without what is made anew each time, and whether the release was made of it.

        A release is rendered again in the way in which it was made, since charts tell installs from upgrades.
        """
        release = self._release
        if release is not None:
            upgrade = not release.from_install
            one = self._render(upgrade=upgrade)
            if self._has_mark(release, one):
                return one, one, True
            pattern = agreed_render(one, self._render(upgrade=upgrade))
            if self._has_mark(release, pattern) or self._says_the_same(release, pattern):
                return one, pattern, True
            if upgrade:
                return one, pattern, False
        one = self._render(upgrade=release is not None)
        return one, agreed_render(one, self._render(upgrade=release is not None)), False

    def _digest(self, render: HelmRender) -> str:
        """What the mark of a revision made of this render says."""
        return render.digest((self._chart.name, self._chart.version), self._source.merged_values())

    def _has_mark(self, release: HelmRelease, render: HelmRender) -> bool:
        """Whether we made this very revision of such a render."""
        mark = release.revision.mark
        return mark is not None and release.revision.is_as_we_made_it and mark.render == self._digest(render)

    def _says_the_same(self, release: HelmRelease, pattern: HelmRender) -> bool:
        """Whether a revision, whoever made it, holds what this render says."""
        if (release.chart, release.chart_version) != (self._chart.name, self._chart.version):
            return False
        hooks = tuple(itertools.chain.from_iterable(_read_text(text, "hook") for text in release.hooks))
        return (
            dict(release.values) == self._source.merged_values()
            and same_objects(pattern.objects, read_objects(release))
            and same_objects(pattern.hooks, tuple(obj for obj in hooks if not _is_test(obj)))
        )

    def _render(self, *, upgrade: bool) -> HelmRender:
        """Render the chart; its own definitions will be served by the time that its objects are made."""
        found = self._rendered(self._server, upgrade)
        coming = self._server.with_definitions(found.definitions)
        if coming != self._server:
            self._server = coming
            found = self._rendered(coming, upgrade)
        return found

    def _rendered(self, server: ServerCapabilities, upgrade: bool) -> HelmRender:
        """One render."""
        texts = split_text(self._helm.render(self._chart.path, self._source, server, upgrade=upgrade))
        return take_apart((text, load_yaml(text.text, text.source)) for text in texts)

    def _placed(self, objects: Objects, definitions: Objects) -> Objects:
        """The objects as helm makes them."""
        release = HelmRevision(self._source.release, self._source.namespace, 0, "")
        scopes = {
            (crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"].get("scope") != "Cluster"
            for crd in (*definitions, *objects)
            if group_and_kind(crd) == ("apiextensions.k8s.io", "CustomResourceDefinition")
        }

        def placed(obj: Object) -> Object:
            """One of them; a kind that nobody knows is refused when it is compared."""
            info = find_resource(self._client, obj["apiVersion"], obj["kind"])
            known = scopes.get(group_and_kind(obj), True) if info is None else info.namespaced
            return as_helm_writes(obj, release, namespaced=known)

        return tuple(placed(obj) for obj in objects)

    def _foreign(self, desired: Objects, ours: Objects) -> list[Object]:
        """What the chart would make and somebody else has made; helm refuses it, half way through."""
        known = {versionless_key(obj) for obj in ours}
        asked = [obj for obj in desired if versionless_key(obj) not in known]
        owner = HelmOwner(self._source.release, self._source.namespace)
        there = [(obj, live) for obj, live in zip(asked, _read_live(self._client, asked), strict=True) if live]
        return [
            {**live, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
            for obj, live in there
            if owner_of(live) != owner
        ]


def read_objects(release: HelmRelease | None) -> Objects:
    """The objects that a revision names."""
    if release is None:
        return ()
    revision = release.revision
    return tuple(_read_text(release.manifest, f"revision {revision.revision} of the release {revision.name}"))


def _read_text(text: str, where: str) -> t.Iterator[Object]:
    """The objects of a text that helm wrote."""
    return flattened(load_yaml(text, where), where)


def _is_test(hook: Object) -> bool:
    """Whether a hook is run by nobody but who asks for tests."""
    events = str((hook["metadata"].get("annotations") or {}).get("helm.sh/hook"))
    return any(event.strip() in ("test", "test-success") for event in events.split(","))


def _differences(changes: collections.abc.Iterable[ObjectChange], desired: Objects) -> list[LiveDifference]:
    """Which of the release's own objects are not as they should be."""
    ours = {versionless_key(obj) for obj in desired}
    return [
        LiveDifference(change.obj, missing=change.action == "created")
        for change in changes
        if change.action != "unchanged" and versionless_key(change.obj) in ours
    ]


def _read_live(client: KubeClient, objects: collections.abc.Iterable[Object]) -> list[Object | None]:
    """Each object as it is in the cluster, None where there is none."""

    def read(obj: Object) -> Object | None:
        """One object."""
        info = find_resource(client, obj["apiVersion"], obj["kind"])
        return None if info is None else get_object(client, object_path(info, obj))

    return ask_all(functools.partial(read, obj) for obj in objects)


def _ours_of(
    client: KubeClient, source: HelmSource, objects: collections.abc.Iterable[Object], but: Objects
) -> list[Object]:
    """Those of the objects that are there, are of the release, and are not among the others; each once."""
    home = source.namespace
    not_asked = {_homed_key(obj, home) for obj in but}
    asked = {key: obj for obj in objects if (key := _homed_key(obj, home)) not in not_asked}
    placed = [{**obj, "metadata": {"namespace": home, **obj["metadata"]}} for obj in asked.values()]
    owner = HelmOwner(source.release, source.namespace)
    live = zip(placed, _read_live(client, placed), strict=True)
    return [
        {**found, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
        for obj, found in live
        if found is not None and owner_of(found) == owner
    ]


def _homed_key(obj: Object, namespace: str) -> tuple[str, str, str, str]:
    """What tells objects of one release apart, whether they name its namespace or not."""
    group, kind, home, name = versionless_key(obj)
    return group, kind, home or namespace, name
