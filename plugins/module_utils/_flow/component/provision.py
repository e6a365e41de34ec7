# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several components made or taken away in one task: in the order of their needs, side by side where they have none."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.installation import (
    Installation,
    InstallationTerms,
    skipped_ladder,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.office import (
    Connection,
    Report,
    Surroundings,
    is_left_over,
    provisioning,
    remove_empty_namespace,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.outcome import (
    ComponentOutcome,
    ProvisionResult,
    installed_outcome,
    removed_outcome,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.plan import (
    ComponentPlan,
    plan_component,
    planned_all,
    what_is_ahead,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.preflight import (
    PlannedComponent,
    preflight,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.removal.recorded import (
    RemovalPlan,
    RemovalTerms,
    plan_removal,
    remove_component,
    remove_namespaces,
    require_unneeded,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import SourcePrograms
from ansible_collections.muster.kube.plugins.module_utils._flow.component.target import Target, rendered_targets
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import NAMESPACE, Object, SeveralRefusals
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import Component
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import ComponentRecord
from ansible_collections.muster.kube.plugins.module_utils._model.component.ladder import Step
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    describe_object,
    group_and_kind,
    versionless_key,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.dependencies import in_waves
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import (
    RECORDS_NAMESPACE,
    ComponentRecords,
)
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership

_LOOK_SECONDS = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class ProvisionOptions:
    """What a task asks for."""

    components: tuple[Component, ...]
    state: t.Literal["present", "absent"] = "present"
    prune: bool = True
    # The last step of the ladder that has to be passed.
    wait_for: Step = "smoke"
    wait_timeout: float = 120.0
    with_resources: bool = False
    remove_definitions: bool = False
    record_namespace: str = RECORDS_NAMESPACE
    check_mode: bool = False
    # Whether the task is about one component, whose keys then stand in the result itself too.
    single: bool = False


def provision(
    connection: Connection,
    options: ProvisionOptions,
    report: Report,
    programs: SourcePrograms,
    around: Surroundings | None = None,
) -> ProvisionResult:
    """Make the components what the task says."""
    names = [component.name for component in options.components]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput("read", f"component {twice}", "it is there twice")
    task = _Task(connection, options, report, programs, around or Surroundings())
    if options.state == "absent":
        return task.remove()
    with rendered_targets(options.components, programs) as targets:
        _require_separate((target.component.name, (*target.main, *target.late, *target.smoke)) for target in targets)
        return task.install(targets)


class _Task:
    """One task on some components."""

    def __init__(
        self,
        connection: Connection,
        options: ProvisionOptions,
        report: Report,
        programs: SourcePrograms,
        around: Surroundings,
    ) -> None:
        """Nothing is asked yet."""
        self._programs = programs
        self._connection = connection
        self._options = options
        self._report = report
        self._around = around
        self._client = connection()
        self._warnings: tuple[str, ...] = ()

    def install(self, targets: list[Target]) -> ProvisionResult:
        """Make all that differs, after the server was asked about all of it."""
        try:
            plans = self._plans(self._client, self._in_order(targets))
        except MusterError as error:
            self._tell_rights(targets, error)
            raise
        self._look_ahead(plans)
        if self._options.check_mode:
            skipped = skipped_ladder("nothing is made in check mode")
            return self._result([installed_outcome(plan, skipped, None) for plan in plans])
        if not any(plan.writes for plan in plans):
            return self._carry_out(self._client, plans)
        with self._office() as client:
            # What they need may have gone before the Lease was ours.
            return self._carry_out(client, self._plans(client, self._in_order(targets)))

    def _in_order(self, targets: collections.abc.Sequence[Target]) -> list[Target]:
        """The components, each after those it needs."""
        by_name = {target.component.name: target for target in targets}
        needs = {name: target.component.depends_on for name, target in by_name.items()}
        there = () if all(set(wanted) <= set(by_name) for wanted in needs.values()) else self._recorded()
        return [by_name[name] for wave in in_waves(needs, there) for name in wave]

    def _tell_rights(self, targets: collections.abc.Sequence[Target], error: MusterError) -> None:
        """Where the server refuses for want of rights, tell all that are missing instead of the first.

        What a chart renders is not known then.
        """
        refusals = error.refusals if isinstance(error, SeveralRefusals) else (error,)
        if any(target.release for target in targets) or not any(isinstance(item, Forbidden) for item in refusals):
            return
        planned = [
            PlannedComponent(target.component.name, (*target.main, *target.late, *target.smoke)) for target in targets
        ]
        found = preflight(self._client, planned, self._namespace)
        if found.missing and found.problem is not None:
            raise found.problem from error

    def _look_ahead(self, plans: collections.abc.Sequence[ComponentPlan]) -> None:
        """Refuse what speaks against writing: versions, rights, webhooks; where nothing is written nothing does."""
        planned = [planned_component(plan) for plan in plans if plan.writes]
        if not planned:
            return
        found = preflight(self._client, planned, self._namespace)
        if found.problem is not None:
            raise found.problem
        self._warnings = found.warnings

    def remove(self) -> ProvisionResult:
        """Take all away, those first that need others."""
        plans = self._removals(self._client)
        if self._options.check_mode:
            return self._result([removed_outcome(plan, None) for plan in plans])
        if not any(plan.writes for plan in plans) and not self._is_left_over():
            return self._result([removed_outcome(plan, None) for plan in plans])
        with self._office() as client:
            deadline = client.clock() + self._options.wait_timeout
            outcomes = self._remove_each(client, deadline)
            if all(outcome.problem is None for outcome in outcomes) and is_left_over(client, self._namespace):
                remove_empty_namespace(self._client, self._namespace, deadline)
        return self._result(outcomes)

    @property
    def _namespace(self) -> str:
        return self._options.record_namespace

    def _office(self) -> t.ContextManager[KubeClient]:
        """The right to write, waited for as long as the task may wait at all."""
        timeout = self._options.wait_timeout
        return provisioning(self._connection, self._namespace, timeout, self._report, self._around)

    def _is_left_over(self) -> bool:
        """Whether the namespace of the records was left behind by a run that removed the last component."""
        return is_left_over(self._client, self._namespace)

    def _recorded(self) -> tuple[str, ...]:
        """The components that are there already, and not half gone."""
        records = ComponentRecords(self._client, self._namespace).all()
        return tuple(item.record.name for item in records if item.record.phase != "removing")

    def _plans(self, client: KubeClient, order: collections.abc.Iterable[Target]) -> list[ComponentPlan]:
        """What has to be done, each with what those before it will have made."""
        records = ComponentRecords(client, self._namespace)
        smokes = self._options.wait_for == "smoke"
        done: list[ComponentPlan] = []

        def plan(target: Target) -> ComponentPlan:
            """One component."""
            stored = records.read(target.component.name)
            done.append(
                plan_component(client, target, stored, what_is_ahead(done), prune=self._options.prune, smokes=smokes)
            )
            return done[-1]

        plans = planned_all(functools.partial(plan, target) for target in order)
        # Where objects lie that name no namespace, or one that their kind does not have, the server knows.
        _require_separate((plan.target.component.name, plan.objects) for plan in plans)
        return plans

    def _carry_out(self, client: KubeClient, plans: list[ComponentPlan]) -> ProvisionResult:
        """Begin each component when those it needs are done, and go on with all that have begun by turns."""
        terms = InstallationTerms(self._options.wait_for, client.clock() + self._options.wait_timeout)
        records = ComponentRecords(client, self._namespace)
        outcomes: dict[str, ComponentOutcome] = {}
        waiting = {plan.target.component.name: plan for plan in plans}
        running: dict[str, tuple[Installation, collections.abc.Iterator[None]]] = {}
        while waiting or running:
            for name in [*waiting]:
                if all(other in outcomes or other not in _names_of(plans) for other in _needs(waiting[name])):
                    plan = waiting.pop(name)
                    failed = next((other for other in _needs(plan) if _has_failed(outcomes.get(other))), None)
                    if failed is not None:
                        outcomes[name] = _not_begun(plan, failed)
                        continue
                    work = Installation(client, records, plan, terms, self._report)
                    running[name] = (work, work.run())
            ended = [name for name, (_work, steps) in running.items() if next(steps, _ENDED) is _ENDED]
            for name in ended:
                work = running.pop(name)[0]
                outcomes[name] = installed_outcome(work.plan, work.ladder, work.problem)
            if running and not ended:
                client.sleep(_LOOK_SECONDS)
        return self._result([outcomes[plan.target.component.name] for plan in plans])

    def _removals(self, client: KubeClient) -> list[RemovalPlan]:
        """What goes of each component, in the order of going."""
        records = ComponentRecords(client, self._namespace)
        names = [component.name for component in self._options.components]
        stored = {name: records.read(name) for name in names}
        # Who may not list records learns of no other component.
        with contextlib.suppress(Forbidden):
            require_unneeded(names, [item.record for item in records.all()])
        needs = {
            component.name: [other for other in _all_needs(component, stored[component.name]) if other in stored]
            for component in self._options.components
        }
        order = [name for wave in reversed(in_waves(needs)) for name in wave]
        return [plan_removal(client, name, stored[name], self._removal_terms(name)) for name in order]

    def _removal_terms(self, name: str, later: collections.abc.Iterable[str] = ()) -> RemovalTerms:
        """What goes besides a component's own objects."""
        hints = {component.name: component.removal for component in self._options.components}
        options = self._options
        return RemovalTerms(
            options.with_resources, options.remove_definitions, frozenset(hints), frozenset(later), hints[name]
        )

    def _remove_each(self, client: KubeClient, deadline: float) -> list[ComponentOutcome]:
        """Take one component after the other away; behind one that does not go, what it needs stays."""
        outcomes: list[ComponentOutcome] = []
        records = ComponentRecords(client, self._namespace)
        plans = self._removals(client)
        for number, plan in enumerate(plans):
            problem: MusterError | None = None
            if any(outcome.problem is not None for outcome in outcomes):
                problem = MusterError("remove", f"component {plan.name}", "one before it is not gone")
            elif plan.writes:
                self._report(f"removing component {plan.name}")
                terms = self._removal_terms(plan.name, (item.name for item in plans[number + 1 :]))
                problem = self._remove_one(client, records, plan.name, terms, deadline)
            outcomes.append(removed_outcome(plan, problem))
        if all(outcome.problem is None for outcome in outcomes):
            for plan in plans:
                remove_namespaces(
                    client, plan_removal(client, plan.name, None, self._removal_terms(plan.name)), deadline
                )
        return outcomes

    def _remove_one(
        self, client: KubeClient, records: ComponentRecords, name: str, terms: RemovalTerms, deadline: float
    ) -> MusterError | None:
        """Take one component away, as it is now that those before it are gone; returns why it did not go."""
        try:
            plan = plan_removal(client, name, records.read(name), terms)
            remove_component(client, records, plan, self._programs.helm, deadline)
        except LostLeadership:
            raise
        except MusterError as error:
            return error
        return None

    def _result(self, outcomes: collections.abc.Sequence[ComponentOutcome]) -> ProvisionResult:
        """The result, in the order in which the components are named."""
        names = [component.name for component in self._options.components]
        ordered = sorted(outcomes, key=lambda outcome: names.index(outcome.name))
        return ProvisionResult(tuple(ordered), self._options.single, self._warnings)


_ENDED = object()


def _require_separate(owned: collections.abc.Iterable[tuple[str, collections.abc.Iterable[Object]]]) -> None:
    """Refuse an object that two components have: each would make it its own. A namespace belongs to the first."""
    homes: dict[tuple[str, str, str, str], str] = {}
    for name, objects in owned:
        for obj in objects:
            first = homes.setdefault(versionless_key(obj), name)
            if first != name and group_and_kind(obj) != NAMESPACE:
                raise BadInput("read", f"component {name}: {describe_object(obj)}", f"component {first} has it too")


def planned_component(plan: ComponentPlan) -> PlannedComponent:
    """What preflight looks at; helm keeps its revisions in Secrets beside the objects."""
    component, release = plan.target.component, plan.target.release
    changes = [*plan.made, *plan.late]
    objects = [change.obj for change in changes if change.action != "unchanged"]
    if release is not None:
        metadata = {"name": f"sh.helm.release.v1.{release.source.release}.v1", "namespace": release.source.namespace}
        objects.append({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    return PlannedComponent(
        component.name,
        [*objects, *(plan.target.smoke if plan.smoke_due else ())],
        [change.obj for change in changes if change.action == "unchanged"],
        component.version,
        component.facts.kubernetes,
        component.facts.reinvoke_beside,
    )


def _names_of(plans: collections.abc.Iterable[ComponentPlan]) -> frozenset[str]:
    """The components of some plans."""
    return frozenset(plan.target.component.name for plan in plans)


def _needs(plan: ComponentPlan) -> tuple[str, ...]:
    return plan.target.component.depends_on


def _all_needs(component: Component, stored: t.Any) -> tuple[str, ...]:
    """What a component needs, by the task or by its record."""
    record: ComponentRecord | None = None if stored is None else stored.record
    return (*component.depends_on, *(() if record is None else record.depends_on))


def _has_failed(outcome: ComponentOutcome | None) -> bool:
    return outcome is not None and outcome.problem is not None


def _not_begun(plan: ComponentPlan, failed: str) -> ComponentOutcome:
    """A component whose needs are not there."""
    reason = f"component {failed}, which it needs, failed"
    problem = MusterError("install", plan.target.component.where, reason)
    return dataclasses.replace(installed_outcome(plan, skipped_ladder(reason), problem), changes=())
