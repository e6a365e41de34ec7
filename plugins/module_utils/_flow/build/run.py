# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind image_build: an image for a stack, built at most once."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.job import (
    CONTAINER,
    PUSHER,
    build_job,
    bundle_context,
    deadline,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.build.local import build_locally, remove_locally
from ansible_collections.muster.kube.plugins.module_utils._flow.build.preflight import Probes
from ansible_collections.muster.kube.plugins.module_utils._flow.build.written_context import write_context
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import JobSignal
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import (
    FileBundle,
    FinishedRun,
    FoundRun,
    RecordedJob,
    RunResult,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import Nodes, require_hardware
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import (
    Listen,
    Report,
    find_recorded,
    remove_recorded,
    run_recorded,
    sweep_records,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import (
    BUILD_LABEL,
    BuildSettings,
    BuildSpec,
    Engine,
    Tier,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import HardwareAsk
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    BUILD_FAILED,
    PodFacts,
    RunState,
    digest_in,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.image.build_outcome import (
    build_outcome,
    build_times,
    joined_frames,
    without_frame,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import Context, build_context
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import affinity_terms

Connect = t.Callable[[], KubeClient]


@dataclasses.dataclass(frozen=True, slots=True)
class BuildOptions:
    """What a task of image_build asks for; image is a ready image for the engine none."""

    state: t.Literal["present", "absent"] = "present"
    engine: Engine = "auto"
    namespace: str = "default"
    spec: BuildSpec | None = None
    image: str | None = None
    name: str | None = None
    settings: BuildSettings = dataclasses.field(default_factory=BuildSettings)
    script: str | None = None
    force: bool = False
    wait: bool = True
    ttl: float | None = None
    check_mode: bool = False
    context_dest: str | None = None

    @property
    def engine_used(self) -> t.Literal["job", "podman", "none"]:
        """The engine that does it: a ready image needs none, a stack is built in the cluster unless told otherwise."""
        if self.engine == "auto":
            return "none" if self.spec is None and self.name is None else "job"
        return self.engine


class BuildFailed(MusterError):
    """The image could not be built; outcome holds the reason, the log and everything else that is known."""

    def __init__(self, outcome: Data) -> None:
        """Keep the outcome for the result."""
        super().__init__("build", f"image {outcome['image']}", f"{outcome['reason']}: {outcome['message']}")
        self.outcome = outcome

    def as_result(self) -> Data:
        """The family's keys and the outcome's."""
        return {**self.outcome, **super().as_result()}


def run_build(connect: Connect, terms: BuildOptions, report: Report, *, listen: Listen = JobSignal) -> Data:
    """Do what the task asks; returns the keys of its result. BuildFailed when there is no image in the end."""
    engine = terms.engine_used
    if terms.context_dest is not None:
        return write_context(_required_spec(terms), terms.context_dest, dry=terms.check_mode)
    if engine == "none":
        return _ready(terms)
    if engine == "podman":
        return _local(terms, report)
    client = connect()
    if terms.state == "absent":
        return _remove(client, terms)
    # Before the build is looked for: its own record may be one of those whose time is over.
    swept = sweep_records(client, terms.namespace, BUILD_LABEL, dry=terms.check_mode)
    build = find_cluster_build(client, terms, Nodes(client), swept)
    answer = build.preview() if terms.check_mode else build.run(report, listen)
    result = {**answer, "swept": swept, "changed": answer["changed"] or bool(swept)}
    if result["reason"] is not None:
        raise BuildFailed(result)
    return result


def find_build(client: KubeClient, terms: BuildOptions, nodes: Nodes, report: Report) -> ClusterBuild | LocalBuild:
    """The build of a stack that shall run in the cluster, and what is known of it. Reads only."""
    if terms.engine_used == "job":
        return find_cluster_build(client, terms, nodes)
    shown = run_build(lambda: client, dataclasses.replace(terms, check_mode=True), report)
    return LocalBuild(terms, _required_spec(terms), shown)


def find_cluster_build(
    client: KubeClient, terms: BuildOptions, nodes: Nodes, swept: t.Collection[str] = ()
) -> ClusterBuild:
    """The build of a stack in the cluster and what is recorded of it; hardware that no node has is refused.

    Reads only, and all that is needed to go on: the Dockerfile is made and packed here and nowhere else. Records that
    were swept, or would be, tell nothing.
    """
    spec, script = _required_spec(terms), _required_script(terms)
    context = build_context(spec.stack)
    build = ClusterBuild(client, terms, spec, script, context, bundle_context(context, script), FoundRun())
    recorded = build.recorded(terms.settings.tier or "baseline")
    found = FoundRun() if spec.name in swept else find_recorded(client, recorded)
    affinity = None if found.result is not None else _affinity(nodes, terms.settings)
    return dataclasses.replace(build, found=found, affinity=affinity)


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterBuild:
    """A build in the cluster: how it is made, and what was found of it."""

    client: KubeClient
    terms: BuildOptions
    spec: BuildSpec
    script: str
    context: Context
    bundles: tuple[FileBundle, ...]
    found: FoundRun
    affinity: Data | None = None

    @property
    def is_made(self) -> bool:
        """Whether there is an image already."""
        return self.found.result is not None

    def again(self, nodes: Nodes) -> ClusterBuild:
        """The same build, to be made anew although it was made before."""
        terms = dataclasses.replace(self.terms, force=True)
        build = dataclasses.replace(self, terms=terms, affinity=_affinity(nodes, terms.settings))
        return dataclasses.replace(build, found=find_recorded(self.client, build.recorded("baseline")))

    def run(self, report: Report, listen: Listen) -> Data:
        """The keys of the result, of a build that was made before or is made now; a failed one has a reason."""
        settings, tier, script = self.terms.settings, self.terms.settings.tier, self.script
        probed, refused = False, {}
        if tier is None and not self.is_made:
            probes = Probes(self.client, self.terms.namespace, self.spec, settings, script, self.affinity)
            chosen = probes.choose_tier(report, listen, force=self.terms.force)
            tier, refused, probed = chosen.tier, dict(chosen.refused), chosen.changed
        recorded = self.recorded(tier or "baseline")
        # Probing takes its time, after which the record may be another one.
        found = run_recorded(self.client, recorded, report, listen=listen, found=None if probed else self.found)
        answer = self._answer(found)
        return {**answer, "tiers_refused": refused, "changed": answer["changed"] or probed}

    def preview(self) -> Data:
        """What a run would return without building, or that it would build."""
        state = RunState("pending", waiting_for="queued")
        would_build = RunResult(self.spec.name, 0, None, state, cached=False, changed=True)
        return self._answer(self.found.result or would_build) | {"tiers_refused": {}}

    def recorded(self, tier: Tier) -> RecordedJob:
        """The build as a recorded Job."""
        terms, spec, settings = self.terms, self.spec, self.terms.settings
        return RecordedJob(
            namespace=terms.namespace,
            name=spec.name,
            labels={BUILD_LABEL: spec.identity[:20]},
            spec=spec.as_data(),
            identity=spec.identity,
            bundles=self.bundles,
            job=lambda context: build_job(spec, settings, tier, self.affinity, context),
            harvest=lambda run: _harvest(spec, tier, run),
            failed_as=BUILD_FAILED,
            is_stale=lambda outcome: outcome.get("reason") is not None,
            start_timeout=settings.start_timeout,
            deadline_seconds=deadline(settings),
            patience=deadline(settings),
            ttl=terms.ttl,
            force=terms.force,
            wait=terms.wait,
        )

    def _answer(self, found: RunResult) -> Data:
        """The keys of the result."""
        empty = build_outcome(self.spec, RunState("pending"), read_frames(b""), None)
        outcome = found.outcome or {**empty, "reason": None, "message": found.state.message}
        return {
            "engine_used": "job",
            "tier": self.terms.settings.tier,
            **build_times(None, None),
            "created": None,
            "node": None,
            "builder_digest": None,
            **outcome,
            "name": found.name,
            "namespace": self.terms.namespace,
            "attempt": found.attempt,
            "phase": found.state.phase,
            "waiting_for": found.state.waiting_for,
            "cached": found.cached,
            "changed": found.changed,
            "dockerfile": self.context.dockerfile,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class LocalBuild:
    """A build with the programs of this machine: what it is, and what check mode shows of it."""

    terms: BuildOptions
    spec: BuildSpec
    shown: Data

    @property
    def is_made(self) -> bool:
        """Whether there is an image already."""
        return self.shown.get("digest") is not None

    def again(self, _nodes: Nodes) -> LocalBuild:
        """The same build, to be made anew although it was made before."""
        return dataclasses.replace(self, terms=dataclasses.replace(self.terms, force=True))

    def run(self, report: Report, _listen: Listen) -> Data:
        """The keys of the result, as of a build in the cluster."""
        return _build_here(self.terms, report) if self.terms.force or not self.is_made else self.shown

    def preview(self) -> Data:
        """What a run would return without building, or that it would build."""
        return self.shown


def _harvest(spec: BuildSpec, tier: Tier, run: FinishedRun) -> Data:
    """The outcome out of the pod's log."""
    pod = run.facts.pods[-1] if run.facts.pods else None
    builder = pod.container(CONTAINER) if pod is not None else None
    times = build_times(builder.started if builder is not None else None, pod.finished if pod is not None else None)
    more = {
        "engine_used": "job",
        "tier": tier,
        "node": pod.node if pod is not None else None,
        "builder_digest": digest_in(builder.image_id) if builder is not None else None,
    }
    return {**_pod_outcome(spec, run, pod), **times, **more}


def _pod_outcome(spec: BuildSpec, run: FinishedRun, pod: PodFacts | None) -> Data:
    """The outcome out of the logs of the builder and, if it was started, of the pusher."""
    log = run.log(pod.name, CONTAINER) if pod is not None and pod.started else None
    pusher = pod.container(PUSHER) if pod is not None else None
    frame = read_frames(log or b"")
    if pod is None or pusher is None or (pusher.started is None and not pusher.ended):
        return build_outcome(spec, run.state, joined_frames(frame, None), log)
    pushed = run.log(pod.name, PUSHER)
    joined = joined_frames(frame, read_frames(pushed or b""))
    return build_outcome(spec, run.state, joined, without_frame(log) + (pushed or b""))


def _affinity(nodes: Nodes, settings: BuildSettings) -> Data | None:
    """The nodes to build on; asked hardware that no node has is refused before anything is created."""
    if settings.hardware == HardwareAsk():
        return None
    require_hardware(nodes, settings.hardware, settings.requests, "build")
    return affinity_terms(settings.hardware, nodes.all())


def _ready(terms: BuildOptions) -> Data:
    """A ready image: nothing is built."""
    if terms.image is None:
        raise BadInput("use", "image", "the engine none needs the name of a ready image")
    digest = terms.image.partition("@")[2] or None
    return {
        "image": terms.image,
        "digest": digest,
        "image_id": None,
        "base_digest": None,
        "spec_hash": None,
        "packages": None,
        "reason": None,
        "message": "",
        "log": "",
        "log_truncated": 0,
        "engine_used": "none",
        "tier": None,
        **build_times(None, None),
        "created": None,
        "cached": True,
        "changed": False,
        "dockerfile": None,
    }


def _local(terms: BuildOptions, report: Report) -> Data:
    """Build with the programs of this machine."""
    if terms.state == "absent":
        return {"changed": remove_locally(_required_spec(terms), dry=terms.check_mode)}
    result = _build_here(terms, report)
    if result["reason"] is not None:
        raise BuildFailed(result)
    return result


def _build_here(terms: BuildOptions, report: Report) -> Data:
    """The outcome of a build on this machine; a failed one has a reason."""
    spec, script = _required_spec(terms), _required_script(terms)
    return build_locally(spec, terms.settings, script, report, force=terms.force, check_mode=terms.check_mode)


def _remove(client: KubeClient, terms: BuildOptions) -> Data:
    """Delete the record of a build; the image stays in its registry."""
    name = terms.name or _required_spec(terms).name
    removed = remove_recorded(client, terms.namespace, name, dry=terms.check_mode)
    swept = sweep_records(client, terms.namespace, BUILD_LABEL, dry=terms.check_mode)
    return {"changed": removed or bool(swept), "name": name, "namespace": terms.namespace, "swept": swept}


def _required_spec(terms: BuildOptions) -> BuildSpec:
    """The specification, without which nothing can be built."""
    if terms.spec is None:
        raise BadInput("build", "stack", "it is missing; describe the stack and name the image")
    return terms.spec


def _required_script(terms: BuildOptions) -> str:
    """The builder's script, which the action plugin brings along."""
    if not terms.script:
        cause = "it is missing; the action plugin of this collection reads it on the controller"
        raise BadInput("build", "build_script", cause)
    return terms.script
