# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind inspection: build the stack if need be, run the script, return results stored before or now.

Wrong options and hardware that no node has are refused before anything is created. Lack of room is no failure: it is
reported and waited for.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import ClusterBuild, LocalBuild, find_build
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import (
    empty_answer,
    finished_answer,
    with_build,
    with_outcome,
    with_verdict,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.cancel import cancel_inspections, names_of
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.harvest import (
    Harvester,
    finished_results,
    is_usable,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.local import remove_local_results, run_locally
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.matrix import run_cells
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import (
    STOP_SECONDS,
    run_bundles,
    run_job,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import (
    InspectionOptions,
    Report,
    checked,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import (
    IDENTIFIER_LABEL,
    INSPECTION_LABEL,
    RunPlan,
    checked_identifier,
    inspection_name,
    label_keys,
    plan_run,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.room import room_for
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.script import Fetch, fetch_url, read_script
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import JobSignal
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import (
    JobContext,
    RecordedJob,
    Repetitions,
    RunResult,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import (
    Nodes,
    NoSuchHardware,
    nodes_for,
    require_hardware,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import (
    Cancelled,
    Listen,
    find_recorded,
    remove_recorded,
    run_recorded,
    sweep_records,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BUILD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import holds_result
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import (
    RunSpec,
    result_lines,
    run_data,
    run_hash,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    IMAGE_PULL,
    SCRIPT_FAILED,
    PodLimits,
    RunState,
    digest_in,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_result import outcome_problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import HANG_SECONDS
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import (
    is_result,
    worth_repeating,
)

Connect = t.Callable[[], KubeClient]

# How registries and runtimes say that an image is not there.
_GONE = re.compile(r"(?i)not found|manifest unknown|name unknown|no such (image|manifest)")


def run_inspection(
    connect: Connect, terms: InspectionOptions, report: Report, *, listen: Listen = JobSignal, fetch: Fetch = fetch_url
) -> Data:
    """Do what the task asks; returns the keys of its result, with failed among them when the inspection failed."""
    if terms.cells:
        return run_cells(terms, lambda cell: run_inspection(connect, cell, report, listen=listen, fetch=fetch), report)
    checked_identifier(terms.identifier)
    if terms.state == "cancelled":
        if terms.engine == "local":
            raise BadInput("cancel", "engine", "what runs on this machine ends with its task")
        return cancel_inspections(connect(), terms)
    if terms.state == "absent":
        return remove_local_results(terms) if terms.engine == "local" else _remove(connect(), terms)
    wanted = checked(terms)
    script = read_script(wanted.source, fetch=fetch)
    plan = None if script is None else plan_run(wanted, script, wanted.image or "")
    if wanted.engine == "local":
        answer = run_locally(wanted, plan, report)
    else:
        answer = _Inspection(connect(), wanted, plan, report, listen).run()
    return finished_answer(answer, fail_when_failed=wanted.fail_when_failed)


def _remove(client: KubeClient, terms: InspectionOptions) -> Data:
    """Remove inspections with their results; those whose time is over go as well."""
    dry = terms.check_mode
    removed = [name for name in names_of(client, terms) if remove_recorded(client, terms.namespace, name, dry=dry)]
    swept = sweep_records(client, terms.namespace, INSPECTION_LABEL, dry=dry)
    removed += [name for name in swept if name not in removed]
    return {"changed": bool(removed), "removed": removed, "namespace": terms.namespace}


class _Inspection:
    """One inspection in a cluster, from wherever it stands to its answer."""

    def __init__(
        self, client: KubeClient, terms: InspectionOptions, plan: RunPlan | None, report: Report, listen: Listen
    ) -> None:
        self._client = client
        self._terms = terms
        self._plan = plan
        self._report = report
        self._listen = listen
        self._nodes = Nodes(client)
        self._answer = empty_answer(terms.namespace, terms.ignored)

    @property
    def _built_now(self) -> bool:
        """Whether this task has built the image in the cluster, and so has read the log of a pod."""
        built = self._answer["status"]["build"]
        return built is not None and built["engine_used"] == "job" and not built["cached"]

    def run(self) -> Data:
        """Build, run, answer; in check mode tell how far it would come."""
        terms, plan, build = self._terms, self._plan, None
        if terms.stack is not None:
            build = find_build(self._client, terms.build_options(), self._nodes, self._report)
            if plan is not None and not build.is_made:
                self._require_hardware(plan)
            self._build(build)
        elif plan is not None:
            self._answer |= {"image": terms.image, "image_digest": digest_in(terms.image or "")}
        if plan is not None:
            self._run_in_image(plan, build)
        if self._answer["changed"] and not terms.check_mode:
            self._sweep()
        return self._answer

    def _run_in_image(self, plan: RunPlan, build: ClusterBuild | LocalBuild | None) -> None:
        """Run the script if there is an image; one that was built before and that its registry lost is built again."""
        if build is None:
            self._answer = self._run(plan)
        elif self._has_image():
            self._answer = self._run(plan.with_image(self._run_image()))
            if self._is_image_lost():
                self._report(f"{build.spec.reference}: the registry lost it; it is built again")
                self._build(build.again(self._nodes))
                if self._has_image():
                    self._answer = self._run(plan.with_image(self._run_image()))

    def _has_image(self) -> bool:
        """Whether the build is over and has made an image."""
        return self._answer["reason"] is None and self._answer["image_digest"] is not None

    def _is_image_lost(self) -> bool:
        """Whether an image that was built before is in its registry no more; one that was just made is there."""
        built = self._answer["status"]["build"] or {}
        lost = self._answer["reason"] == IMAGE_PULL and _GONE.search(str(self._answer["message"])) is not None
        return lost and bool(built.get("cached")) and not self._terms.check_mode

    def _build(self, build: ClusterBuild | LocalBuild) -> None:
        """Build the stack, or tell what would be built; the answer has a digest when there is an image to run."""
        dry = self._terms.check_mode
        self._answer = with_build(self._answer, build.preview() if dry else build.run(self._report, self._listen))
        if dry and self._answer["image_digest"] is None:
            self._answer["would_run"] = self._plan is not None

    def _run_image(self) -> str:
        """The image by its digest: its tag might be moved meanwhile."""
        image, digest = str(self._answer["image"]), self._answer["image_digest"]
        head, slash, tail = image.rpartition("/")
        return f"{head}{slash}{tail.partition(':')[0]}@{digest}"

    def _require_hardware(self, plan: RunPlan) -> None:
        """Refuse hardware that no node has, unless nodes are to come for it."""
        try:
            require_hardware(self._nodes, plan.ask, plan.spec.resources, "run")
        except NoSuchHardware as error:
            if not self._terms.wait_for_nodes:
                raise
            self._report(f"nodes are waited for: {error.match.words()}")

    def _run(self, plan: RunPlan) -> Data:
        """Run the script, or return what is stored."""
        identity = run_hash(plan.spec, self._answer["image_digest"])
        name = inspection_name(self._terms.identifier, identity)
        self._answer |= {"inspection_id": name, "run_hash": identity}
        recorded = self._recorded(plan, name, identity)
        self._answer["specification"] = {key: recorded.spec[key] for key in ("run", "script")}
        found = find_recorded(self._client, recorded)
        if found.result is None and not found.in_progress:
            self._require_hardware(plan)
            self._judge_room(recorded)
        if self._terms.check_mode:
            return self._preview(found.result)
        try:
            ran = run_recorded(self._client, recorded, self._report, listen=self._listen, found=found)
        except Cancelled as error:
            return with_outcome({**self._answer, "changed": True}, RunState("failed", CANCELLED, error.cause), None)
        changed = self._answer["changed"] or ran.changed
        self._answer |= {"changed": changed, "cached": ran.cached, "attempt": ran.attempt}
        return with_outcome(self._answer, ran.state, ran.outcome)

    def _sweep(self) -> None:
        """Delete expired records; a failure is only reported, since the next task tries again."""
        try:
            sweep_records(self._client, self._terms.namespace, INSPECTION_LABEL, BUILD_LABEL)
        except KubeError as error:
            self._report(f"old inspections are not removed: {error}")

    def _judge_room(self, recorded: RecordedJob) -> None:
        """Say whether there is room now; lack of it is waited for."""
        names = {bundle.key: bundle.name(recorded.name) for bundle in recorded.bundles}
        job = recorded.job(JobContext(recorded.name, recorded.labels, names))
        verdict = room_for(self._client, recorded.namespace, job, self._nodes)
        self._answer = with_verdict(self._answer, verdict)
        if verdict["answer"] != "fits":
            self._report(f"{recorded.name}: there is no room yet: {self._answer['verdict_text']}")

    def _preview(self, stored: RunResult | None) -> Data:
        """The stored results, or that the script would be run."""
        if stored is not None:
            changed = self._answer["changed"] or stored.changed
            self._answer |= {"cached": True, "attempt": stored.attempt, "would_run": False, "changed": changed}
            return with_outcome(self._answer, stored.state, stored.outcome)
        return {**self._answer, "phase": "Pending", "changed": True, "cached": False, "would_run": True}

    def _recorded(self, plan: RunPlan, name: str, identity: str) -> RecordedJob:
        """The run as a recorded Job."""
        terms, spec = self._terms, plan.spec
        bundles = run_bundles(spec, terms.collector or "")
        own = {INSPECTION_LABEL: name, **({IDENTIFIER_LABEL: terms.identifier} if terms.identifier else {})}
        data = run_data(spec, self._answer["image_digest"])
        build = {key: self._answer[key] for key in ("spec_hash", "image", "image_digest", "dockerfile")}

        def job(context: JobContext) -> Data:
            """The Job, for the nodes as they are now."""
            return run_job(spec, plan.pod_options(self._known_nodes(plan)), bundles, context)

        harvester = Harvester(spec, plan.ask, self._nodes, label_keys(plan.pod_options(self._known_nodes(plan))))
        return RecordedJob(
            namespace=terms.namespace,
            name=name,
            labels={**terms.labels, **own},
            spec={"run": data, "script": spec.script.decode(errors="replace"), "build": build},
            identity=identity,
            bundles=bundles,
            job=job,
            harvest=harvester.outcome,
            repetitions=_repetitions(spec, harvester),
            failed_as=SCRIPT_FAILED,
            # A stored outcome that was damaged is no answer either.
            is_stale=lambda outcome: outcome_problem(outcome) is not None or worth_repeating(outcome),
            log_lines=result_lines(spec),
            is_whole=holds_result,
            check_logs=not self._built_now,
            start_timeout=terms.start_timeout,
            patience=spec.timeout + HANG_SECONDS,
            ttl=terms.ttl,
            force=terms.force,
            wait=terms.wait,
        )

    def _known_nodes(self, plan: RunPlan) -> list[Data] | None:
        """The nodes if hardware is asked for that one of them has, else None."""
        return nodes_for(self._nodes, plan.ask, plan.spec.resources, self._terms.wait_for_nodes)


def _repetitions(spec: RunSpec, harvester: Harvester) -> Repetitions:
    """The repetitions of the run, each with a result of its own."""
    return Repetitions(
        count=spec.repetitions,
        allowed=spec.allowed_failures,
        limits=PodLimits(spec.timeout, STOP_SECONDS),
        result=harvester.result,
        finished=finished_results,
        failed=lambda result: is_result(result["item"]) and result["item"].get("reason") is not None,
        good=lambda result: result["item"].get("reason") is None,
        usable=is_usable,
    )
