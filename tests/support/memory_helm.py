# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""helm as it deals with a cluster in memory: what it refuses, what it compares, what it writes and in which order.

It may be killed before any of its writes, alone or together with the run that called it.
"""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import read_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.capabilities import ServerCapabilities
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import (
    HelmMark,
    HelmRelease,
    HelmRevision,
    read_release,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import api_group, versionless_key
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import (
    HelmOwner,
    as_helm_writes,
    is_helms_to_repair,
    owner_of,
)
from ansible_collections.muster.kube.tests.support.helm_cases import release_body, release_secret, with_status
from ansible_collections.muster.kube.tests.support.memory_cluster import MemoryCluster, merge
from ansible_collections.muster.kube.tests.support.memory_wire import Killed

Object = dict[str, t.Any]
# A chart: what it renders of values, and whether that is for an upgrade.
Chart = t.Callable[[t.Mapping[str, t.Any], bool], t.Sequence[tuple[str, Object]]]
_ENDED = "it was ended by signal 9"


class MemoryHelm:
    """What HelmProgram does, without a program."""

    def __init__(self, cluster: MemoryCluster, chart: Chart) -> None:
        """A chart is whatever renders."""
        self.cluster = cluster
        self.chart = chart
        self.writes = 0
        self.runs = 0
        self.hooks: list[str] = []
        # Before which write it ends, and whether the run that called it ends too.
        self.killed_at: int | None = None
        self.killed_with_us = False

    def held_by(self, _hold: t.Callable[[], None]) -> MemoryHelm:
        """Nobody takes the right to write away."""
        return self

    def render(self, _chart: str, source: HelmSource, _server: ServerCapabilities, *, upgrade: bool) -> str:
        """Each object under the name of its file."""
        documents = self.chart(source.merged_values(), upgrade)
        return "".join(f"---\n# Source: {file}\n{json.dumps(obj)}\n" for file, obj in documents)

    def upgrade(self, _chart: str, source: HelmSource, mark: HelmMark, _timeout: float) -> None:
        """Install or upgrade."""
        self.runs += 1
        history = self.history(source)
        last = history[-1] if history else None
        if last is not None and last.revision.is_pending:
            raise MusterError(
                "install", source.full_name, "another operation (install/upgrade/rollback) is in progress"
            )
        install = last is None or last.revision.status == "uninstalled"
        deployed = [item for item in history if item.revision.status == "deployed"]
        if last is not None and not install and not deployed and last.revision.status not in ("failed", "superseded"):
            raise MusterError("install", source.full_name, "has no deployed releases")
        base = None if install else (deployed or history)[-1]
        documents = list(self.chart(source.merged_values(), not install))
        target = [obj for file, obj in documents if "/crds/" not in file and not _is_hook(obj)]
        self._require_own(source, base, target)
        number = last.revision.revision + 1 if last else 1
        word = "install" if install else "upgrade"
        hooks = [obj for _file, obj in documents if _is_hook(obj)]
        self._write(lambda: self._store(source, mark, number, (target, hooks), first=install))
        self._write(lambda: self.hooks.append(f"pre-{word}"))
        self._update(source, base, target)
        for item in deployed:
            self._write(lambda item=item: self._set_status(source, item.revision.revision, "superseded"))
        self._write(lambda: self._set_status(source, number, "deployed"))

    def uninstall(self, source: HelmSource, _timeout: float) -> None:
        """Remove what the last revision names, and then all revisions."""
        self.runs += 1
        history = self.history(source)
        if not history:
            return
        last = history[-1].revision.revision
        self._write(lambda: self.hooks.append("pre-delete"))
        self._write(lambda: self._set_status(source, last, "uninstalling"))
        for obj in read_objects(history[-1]):
            self._write(lambda obj=obj: self._remove(source, obj))
        for item in history:
            self._write(lambda item=item: self.cluster.remove("secrets", source.namespace, item.revision.secret))

    def history(self, source: HelmSource) -> list[HelmRelease]:
        """The revisions in their order."""
        secrets = self.cluster.all("secrets", source.namespace)
        found = [read_release(item) for item in secrets if item["metadata"].get("labels", {}).get("owner") == "helm"]
        return sorted(found, key=lambda item: item.revision.revision)

    def _write(self, change: t.Callable[[], t.Any]) -> None:
        """One write, unless it is killed before it."""
        if self.killed_at is not None and self.writes >= self.killed_at:
            if self.killed_with_us:
                raise Killed
            raise MusterError("install", "release", _ENDED)
        self.writes += 1
        change()

    def _place(self, source: HelmSource, obj: Object) -> tuple[str, Object]:
        """The plural of an object's kind, and the object where it lies."""
        kinds = [item for item in self.cluster.kinds.values() if item.name == obj["kind"]]
        [kind] = [item for item in kinds if api_group(item.api_version) == api_group(obj["apiVersion"])]
        return kind.plural, as_helm_writes(obj, _revision(source), namespaced=kind.namespaced)

    def _live(self, source: HelmSource, obj: Object) -> Object | None:
        plural, placed = self._place(source, obj)
        return self.cluster.get(plural, placed["metadata"].get("namespace", ""), placed["metadata"]["name"])

    def _require_own(self, source: HelmSource, base: HelmRelease | None, target: list[Object]) -> None:
        """Refuse to take over what is there and not ours."""
        known = {versionless_key(obj) for obj in read_objects(base)}
        for obj in target:
            live = self._live(source, obj) if versionless_key(obj) not in known else None
            if live is not None and owner_of(live) != HelmOwner(source.release, source.namespace):
                raise MusterError("install", source.full_name, "exists and cannot be imported into the current release")

    def _update(self, source: HelmSource, base: HelmRelease | None, target: list[Object]) -> None:
        """Make, change and remove objects; live ones are looked at for kinds that helm knows."""
        before = {versionless_key(obj): obj for obj in read_objects(base)}
        for obj in target:
            live = self._live(source, obj)
            plural, wanted = self._place(source, obj)
            old = before.get(versionless_key(obj))
            if live is None:
                self._write(lambda plural=plural, wanted=wanted: self.cluster.add(plural, wanted))
            elif is_helms_to_repair(obj) or old is None or old != obj:
                self._write(lambda plural=plural, wanted=wanted: self._patch(plural, wanted))
        kept = {versionless_key(obj) for obj in target}
        for key, obj in before.items():
            if key not in kept:
                self._write(lambda obj=obj: self._remove(source, obj))

    def _patch(self, plural: str, wanted: Object) -> None:
        """Lay what is wanted over what is there."""
        metadata = wanted["metadata"]
        self.cluster.change(
            plural, metadata.get("namespace", ""), metadata["name"], lambda obj: merge(obj, copy.deepcopy(wanted))
        )

    def _remove(self, source: HelmSource, obj: Object) -> None:
        plural, placed = self._place(source, obj)
        self.cluster.remove(plural, placed["metadata"].get("namespace", ""), placed["metadata"]["name"])

    def _store(
        self,
        source: HelmSource,
        mark: HelmMark,
        number: int,
        rendered: tuple[list[Object], list[Object]],
        *,
        first: bool,
    ) -> None:
        """The Secret of a new revision."""
        target, hooks = rendered
        body = release_body(
            config=source.merged_values(),
            manifest="".join(f"---\n{json.dumps(obj)}\n" for obj in target),
            hooks=[{"manifest": json.dumps(hook)} for hook in hooks],
            info={"status": "pending-install" if first else "pending-upgrade"},
            first="2026-11-16T04:00:00Z" if first else "2026-11-16T03:00:00Z",
        )
        self.cluster.add("secrets", release_secret(body, body["info"]["status"], number, mark.as_labels()))

    def _set_status(self, source: HelmSource, number: int, status: str) -> None:
        """Write the status of a revision, which is in its Secret twice."""
        [found] = [item for item in self.history(source) if item.revision.revision == number]
        secret = self.cluster.get("secrets", source.namespace, found.revision.secret)
        assert secret is not None
        changed = with_status(secret, status)
        self.cluster.change("secrets", source.namespace, found.revision.secret, lambda obj: obj.update(changed))


def _revision(source: HelmSource) -> HelmRevision:
    return HelmRevision(source.release, source.namespace, 0, "")


def _is_hook(obj: Object) -> bool:
    return "helm.sh/hook" in (obj["metadata"].get("annotations") or {})
