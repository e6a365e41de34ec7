# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One component made as planned: record, objects, the steps of the ladder, late objects, smoke test.

It goes forward until it has to wait, so that several go on side by side in one thread, and a run that is killed leaves
the same behind whatever else it did.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools

from ansible_collections.muster.kube.plugins.module_utils._flow.component.ladder.climb import (
    Climbed,
    Ladder,
    Report,
    Waiting,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.plan import (
    ComponentPlan,
    as_it_is_now,
    try_again,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_work import carry_out
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    Known,
    Object,
    ObjectChange,
    ask_all,
    compare,
    is_ours,
    object_path,
    write_changes,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import is_passing
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import read_labeled, remove_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import (
    InventoryEntry,
    key_of_object,
    merged_entries,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.ladder import (
    STEPS,
    Step,
    StepResult,
    steps_up_to,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    condition_met,
    describe_object,
    versionless_key,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.health import (
    ObjectHealth,
    has_health,
    health,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import HelmOwner, owner_of
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import ComponentRecords
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership

# After this step the component can take objects that it acts on.
_READY_FOR_OBJECTS: Step = "webhooks"


@dataclasses.dataclass(frozen=True, slots=True)
class InstallationTerms:
    """How far the component is waited for, and until when."""

    wait_for: Step
    deadline: float


class Installation:
    """The work on one component."""

    def __init__(
        self,
        client: KubeClient,
        records: ComponentRecords,
        plan: ComponentPlan,
        terms: InstallationTerms,
        report: Report,
    ) -> None:
        """Nothing is done yet."""
        self.plan = plan
        self.problem: MusterError | None = None
        self._client = client
        self._records = records
        self._stored = plan.stored
        self._terms = terms
        self._report = report
        self._label = plan.target.label
        objects = tuple(change.obj for change in (*plan.made, *plan.late))
        self._ladder = Ladder(
            client, Climbed(plan.target.component, objects, plan.target.digest), terms.deadline, report
        )

    @property
    def ladder(self) -> tuple[StepResult, ...]:
        """What became of the steps so far."""
        return tuple(self._ladder.results)

    def run(self) -> Waiting:
        """Do it; where it has to wait it yields. What goes wrong is kept, but for the loss of the Lease."""
        if self.plan.action == "found":
            return
        try:
            yield from self._run()
        except LostLeadership:
            raise
        except MusterError as error:
            self.problem = error
        self.problem = self.problem or self._ladder.problem

    def _run(self) -> Waiting:
        """The steps in their order."""
        plan, wanted = self.plan, steps_up_to(self._terms.wait_for)
        if plan.uncertain:
            self.plan = plan = try_again(self._client, plan)
        if plan.writes:
            self.plan = plan = as_it_is_now(self._client, plan)
            self._stored = self._records.save(self._stored, plan.coming_record())
            write_changes(self._client, plan.changes, self._terms.deadline)
            self._release(plan)
            remove_objects(self._client, plan.leftovers)
        if plan.writes and not plan.late:
            self._finish()
        yield from self._ladder.climb(step for step in wanted if step in steps_up_to(_READY_FOR_OBJECTS))
        due = plan.writes or any(change.untried for change in plan.late)
        if plan.late and due and self._ladder.problem is None:
            yield from self._write_late()
            if plan.writes:
                self._finish()
        later = [step for step in wanted if step not in steps_up_to(_READY_FOR_OBJECTS)]
        yield from self._ladder.climb(step for step in later if step != "smoke")
        if "smoke" in later:
            yield from self._smoke()

    def _release(self, plan: ComponentPlan) -> None:
        """Have helm do its part."""
        if plan.release is None or plan.target.release is None:
            return
        helm, guard = plan.target.release.helm, self._client.guard
        seconds = max(1.0, self._terms.deadline - self._client.clock())
        carry_out(self._client, helm if guard is None else helm.held_by(guard), plan.release, seconds)

    def _write_late(self) -> Waiting:
        """Write the objects that the component acts on, as soon as it lets the server judge them."""
        uids = frozenset() if self._stored is None else self._stored.record.uids
        while True:
            try:
                changes = compare(self._client, self.plan.target.late, self._label, Known(uids))
                break
            except MusterError as error:
                if not is_passing(error) or self._client.clock() > self._terms.deadline:
                    raise
                yield
        if not self.plan.writes and any(change.action != "unchanged" for change in changes):
            # Somebody changed them since the plan was made without the Lease.
            raise MusterError("install", self.plan.target.component.where, "it was changed meanwhile; run again")
        write_changes(self._client, changes, self._terms.deadline)
        self.plan = dataclasses.replace(self.plan, late=tuple(changes))

    def _finish(self) -> None:
        """Record that all objects are there, with their uids; what was not made by us is used only."""
        plan = self.plan
        wanted = [change.obj for change in (*plan.made, *plan.late)]
        known = self._records.read(plan.target.component.name)
        before = () if known is None else known.record.entries
        uids = frozenset() if known is None else known.record.uids
        entries = ask_all(functools.partial(self._entry, obj, uids) for obj in wanted)
        if plan.smoke_due:
            entries += [InventoryEntry(key_of_object(obj)) for obj in plan.target.smoke]
        keys = {versionless_key(obj) for obj in (*wanted, *plan.leftovers, *plan.target.smoke)}
        # Definitions, namespaces and claims that are not described any more are still the component's.
        old = [entry for entry in before if versionless_key(entry.as_object()) not in keys]
        kept = {versionless_key(obj) for obj in read_labeled(self._client, self._label, map(_as_object, old), uids)}
        left = [entry for entry in old if versionless_key(entry.as_object()) in kept]
        record = dataclasses.replace(plan.target.as_record(plan.record), entries=merged_entries(entries, left))
        self._stored = self._records.save(self._stored, record)

    def _entry(self, obj: Object, uids: frozenset[str]) -> InventoryEntry:
        """An object as it is recorded."""
        info = find_resource(self._client, obj["apiVersion"], obj["kind"])
        live = None if info is None else get_object(self._client, object_path(info, obj))
        if live is None:
            raise MusterError("record", describe_object(obj), "somebody else has removed it")
        uid = str(live["metadata"]["uid"])
        release = self.plan.target.release
        is_helms = release is not None and owner_of(live) == HelmOwner(release.source.release, release.source.namespace)
        return InventoryEntry(key_of_object(obj), uid, is_helms or is_ours(live, self._label, uids))

    def _smoke(self) -> Waiting:
        """Make the objects of the smoke test, wait for them and take them away; what was passed is not tried again."""
        target = self.plan.target
        if not target.smoke or self._ladder.problem is not None or not self.plan.smoke_due:
            reason = "the component has none" if not target.smoke else "this version passed it before"
            reason = reason if self._ladder.problem is None else "a step before it failed"
            return self._ladder.add(StepResult("smoke", "skipped", reason))
        started = self._client.clock()
        changes = compare(self._client, target.smoke, self._label)
        write_changes(self._client, changes, self._terms.deadline)
        found, name = yield from self._watch_smoke(changes)
        remove_objects(self._client, read_labeled(self._client, self._label, [change.obj for change in changes]))
        seconds = self._client.clock() - started
        if not found.ready:
            return self._ladder.add(StepResult("smoke", "failed", found.text, name, seconds))
        self._ladder.add(StepResult("smoke", "passed", f"{len(changes)} objects", None, seconds))
        self._note_smoke()

    def _note_smoke(self) -> None:
        """Record that the smoke test was passed, and that its objects are gone."""
        if self._stored is None:
            return
        target, record = self.plan.target, self._stored.record
        keys = {versionless_key(obj) for obj in target.smoke}
        left = tuple(entry for entry in record.entries if versionless_key(entry.as_object()) not in keys)
        passed = dataclasses.replace(record, smoke=target.smoke_digest, entries=left)
        self._stored = self._records.save(self._stored, passed)

    def _watch_smoke(
        self, changes: list[ObjectChange]
    ) -> collections.abc.Generator[None, None, tuple[ObjectHealth, str | None]]:
        """Wait until all objects of the smoke test are what they have to be; the first that is not, and why."""
        smoke = self.plan.target.component.smoke
        condition = None if smoke is None else smoke.condition
        while True:
            lives = read_labeled(self._client, self._label, [change.obj for change in changes])
            judged = [(_judge_smoke(live, condition), describe_object(live)) for live in lives]
            bad = next((item for item in judged if not item[0].ready), None)
            if len(lives) < len(changes):
                return ObjectHealth(False, "somebody else has removed a part of it"), None
            if bad is None:
                return ObjectHealth(True), None
            if bad[0].failed or self._client.clock() > self._terms.deadline:
                return bad
            yield


def _as_object(entry: InventoryEntry) -> Object:
    return entry.as_object()


def _judge_smoke(live: Object, condition: str | None) -> ObjectHealth:
    """Whether an object of a smoke test is what it has to be: by its kind, else by its condition."""
    if has_health(live):
        return health(live)
    if condition is None or condition_met(live, condition):
        return ObjectHealth(True)
    return ObjectHealth(False, f"it has no true condition {condition}")


def skipped_ladder(reason: str) -> tuple[StepResult, ...]:
    """The ladder of a component that was not begun."""
    return tuple(StepResult(step, "skipped", reason) for step in STEPS)
