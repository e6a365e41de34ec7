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
    contents_of,
    deadline,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.build.local import build_locally, remove_locally
from ansible_collections.muster.kube.plugins.module_utils._flow.build.preflight import choose_tier
from ansible_collections.muster.kube.plugins.module_utils._flow.build.written_context import write_context
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import JobSignal
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import (
    Ended,
    JobPlace,
    Listen,
    Recorded,
    RecordedJob,
    Report,
    find_recorded,
    remove_recorded,
    run_recorded,
    sweep_records,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
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
    UNSCHEDULABLE,
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
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import build_context
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import affinity_terms, match_nodes

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
    spec = _required_spec(terms)
    if terms.check_mode:
        return _preview(client, terms, spec)
    swept = sweep_records(client, terms.namespace, BUILD_LABEL)
    answer = build_in_job(client, terms, spec, report, listen)
    result = {**answer, "swept": swept, "changed": answer["changed"] or bool(swept)}
    if result["reason"] is not None:
        raise BuildFailed(result)
    return result


def build_in_job(client: KubeClient, terms: BuildOptions, spec: BuildSpec, report: Report, listen: Listen) -> Data:
    """The outcome of a build in the cluster, stored before or made now; a failed one is returned like any other."""
    script = _required_script(terms)
    stored = find_recorded(client, _recorded(terms, spec, script, "baseline", None))
    probed, refused, affinity, tier = False, {}, None, terms.settings.tier
    if stored is None:
        affinity = _affinity(client, terms.settings)
        if tier is None:
            chosen = choose_tier(
                client, terms.namespace, spec, terms.settings, script, affinity, report, listen, force=terms.force
            )
            tier, refused, probed = chosen.tier, dict(chosen.refused), chosen.changed
    recorded = _recorded(terms, spec, script, tier or "baseline", affinity)
    found = run_recorded(client, recorded, report, listen=listen)
    answer = _answer(terms, spec, found)
    return {**answer, "tiers_refused": refused, "changed": answer["changed"] or probed}


def _recorded(terms: BuildOptions, spec: BuildSpec, script: str, tier: Tier, affinity: Data | None) -> RecordedJob:
    """The build as a recorded Job."""
    settings = terms.settings

    def harvest(ended: Ended) -> Data:
        """The outcome out of the pod's log."""
        pod = ended.facts.pods[-1] if ended.facts.pods else None
        outcome = _pod_outcome(spec, ended, pod)
        more: Data = {"engine_used": "job", "tier": tier, "node": None, "builder_digest": None}
        more |= build_times(None, None)
        if pod is not None:
            builder = pod.container(CONTAINER)
            more |= build_times(builder.started if builder is not None else None, pod.finished)
            more["node"] = pod.node
            more["builder_digest"] = digest_in(builder.image_id) if builder is not None else None
        return {**outcome, **more}

    def job(place: JobPlace) -> Data:
        """The Job that builds."""
        return build_job(spec, settings, tier, affinity, place)

    return RecordedJob(
        namespace=terms.namespace,
        name=spec.name,
        labels={BUILD_LABEL: spec.identity[:20]},
        spec=spec.as_data(),
        identity=spec.identity,
        contents=contents_of(build_context(spec.stack), script),
        job=job,
        harvest=harvest,
        failed_as=BUILD_FAILED,
        repeat=lambda outcome: outcome.get("reason") is not None,
        start_timeout=settings.start_timeout,
        longest=deadline(settings),
        patience=deadline(settings),
        ttl=terms.ttl,
        force=terms.force,
        wait=terms.wait,
    )


def _pod_outcome(spec: BuildSpec, ended: Ended, pod: PodFacts | None) -> Data:
    """The outcome out of the logs of the builder and, when it came so far, of the one who pushes."""
    log = ended.log(pod.name, CONTAINER) if pod is not None and pod.started else None
    pusher = pod.container(PUSHER) if pod is not None else None
    frame = read_frames(log or b"")
    if pod is None or pusher is None or (pusher.started is None and not pusher.ended):
        return build_outcome(spec, ended.state, joined_frames(frame, None), log)
    pushed = ended.log(pod.name, PUSHER)
    joined = joined_frames(frame, read_frames(pushed or b""))
    return build_outcome(spec, ended.state, joined, without_frame(log) + (pushed or b""))


def _affinity(client: KubeClient, settings: BuildSettings) -> Data | None:
    """The nodes to build on; asked hardware that no node has is refused before anything is created."""
    if settings.hardware == HardwareAsk():
        return None
    try:
        nodes = list_objects(client, "/api/v1/nodes", keep=lambda node: node).items
    except Forbidden:
        return affinity_terms(settings.hardware)
    match = match_nodes(settings.hardware, nodes, settings.requests)
    if match.refused:
        raise NoNode(match.words())
    return affinity_terms(settings.hardware, nodes)


class NoNode(MusterError):
    """No node has the hardware the build asks for."""

    def __init__(self, cause: str) -> None:
        """Say what the nearest nodes lack."""
        super().__init__("place", "the build", cause)

    def as_result(self) -> Data:
        """The family's keys and the reason."""
        return {**super().as_result(), "reason": UNSCHEDULABLE}


def _answer(terms: BuildOptions, spec: BuildSpec, found: Recorded) -> Data:
    """The keys of the result for a build in the cluster."""
    empty = build_outcome(spec, RunState("pending"), read_frames(b""), None)
    outcome = found.outcome or {**empty, "reason": None, "message": found.state.message}
    return {
        "engine_used": "job",
        "tier": terms.settings.tier,
        **build_times(None, None),
        "created": None,
        "node": None,
        "builder_digest": None,
        **outcome,
        "name": found.name,
        "namespace": terms.namespace,
        "attempt": found.attempt,
        "phase": found.state.phase,
        "waiting_for": found.state.waiting_for,
        "cached": found.cached,
        "changed": found.changed,
        "dockerfile": build_context(spec.stack).dockerfile,
    }


def _preview(client: KubeClient, terms: BuildOptions, spec: BuildSpec) -> Data:
    """What a run would return without building, or that it would build."""
    recorded = _recorded(terms, spec, _required_script(terms), terms.settings.tier or "baseline", None)
    found = find_recorded(client, recorded)
    if found is None:
        _affinity(client, terms.settings)
        state = RunState("pending", waiting_for="queued")
        found = Recorded(spec.name, 0, None, state, cached=False, changed=True)
    swept = sweep_records(client, terms.namespace, BUILD_LABEL, dry=True)
    answer = _answer(terms, spec, found)
    return {**answer, "tiers_refused": {}, "swept": swept, "changed": found.changed or bool(swept)}


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
    spec = _required_spec(terms)
    if terms.state == "absent":
        return {"changed": remove_locally(spec, dry=terms.check_mode)}
    result = build_locally(
        spec,
        terms.settings,
        _required_script(terms),
        report,
        force=terms.force,
        check_mode=terms.check_mode,
    )
    if result["reason"] is not None:
        raise BuildFailed(result)
    return result


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
