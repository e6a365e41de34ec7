# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inspection on this machine, with podman and no cluster: the same collector, the same results.

The container is taken from the very Job a cluster would run. Results are kept in the user's cache under the same name.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildFailed, run_build
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import (
    empty_answer,
    with_build,
    with_outcome,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import (
    CONTENT_FOLDER,
    OLD_HWINFO_FOLDER,
    WORK_FOLDER,
    PodOptions,
    run_bundles,
    run_job,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import InspectionOptions, Report
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import (
    RunPlan,
    inspection_name,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import JobContext
from ansible_collections.muster.kube.plugins.module_utils._host.result_cache import (
    cache_folder,
    read_cached,
    write_cached,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import (
    ItemFacts,
    RunSpec,
    item_from_frame,
    run_data,
    run_hash,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    IMAGE_PULL,
    OOM,
    SCRIPT_FAILED,
    TIMEOUT,
    RunState,
    outcome_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_result import outcome_problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO, parse_quantity
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import verify_placement
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import (
    failure_of,
    worth_repeating,
)

PROGRAM = "podman"
_STOP_SECONDS = 20
# So long may it take until the container runs; while it does not, it is looked for so often.
_START_SECONDS = 300.0
_LOOK_SECONDS = 0.5
_LOG_BYTES = 8 * 1024 * 1024
_NOT_RUN = "it was not run, since too many other runs failed"


@dataclasses.dataclass(frozen=True, slots=True)
class _Image:
    """An image in the local storage."""

    id: str
    digest: str | None


class _NoImage(MusterError):
    """The image cannot be had."""


def run_locally(terms: InspectionOptions, plan: RunPlan | None, report: Report) -> Data:
    """Build, run, answer, as in a cluster."""
    answer = empty_answer(None, terms.ignored)
    if terms.stack is not None:
        try:
            build = run_build(_no_cluster, terms.build_options(), report)
        except BuildFailed as error:
            return with_build(answer, error.outcome)
        answer = with_build(answer, build)
        if terms.check_mode and not build.get("cached"):
            return {**answer, "phase": "Pending", "would_run": plan is not None}
    else:
        answer |= {"image": terms.image}
    return answer if plan is None else _run(terms, plan.with_image(str(answer["image"])), report, answer)


def remove_local_results(terms: InspectionOptions) -> Data:
    """Delete stored results by id, or by identifier."""
    folder = result_folder()
    names = {terms.inspection_id} if terms.inspection_id else set()
    if terms.identifier:
        names |= {path.stem for path in folder.glob(f"inspection-{terms.identifier}-*.json")}
    found = sorted(name for name in names if name and (folder / f"{name}.json").is_file())
    for name in found if not terms.check_mode else ():
        (folder / f"{name}.json").unlink(missing_ok=True)
    return {"changed": bool(found), "removed": found, "namespace": None}


def result_folder() -> pathlib.Path:
    """Where the results of local inspections are kept, for the user who runs them."""
    return cache_folder("inspections")


def _no_cluster() -> KubeClient:
    """Nothing here needs a cluster."""
    raise BadInput("build", "the stack", "with engine local the image is built by podman, too")


def _run(terms: InspectionOptions, plan: RunPlan, report: Report, answer: Data) -> Data:
    """Return stored results, or run all repetitions one after the other."""
    if shutil.which(PROGRAM) is None:
        raise MusterError("run on", "this machine", f"{PROGRAM} is not installed")
    if plan.ask.gpu is not None and plan.ask.gpu.count:
        raise BadInput("run", "run: hardware.gpu", "engine local cannot give GPUs to a container")
    if plan.spec.volumes:
        raise BadInput("run", "run: volumes", "engine local knows no volumes of a cluster; use files")
    try:
        image = _find_image(plan.spec.image, pull=not terms.check_mode)
    except _NoImage as error:
        return with_outcome({**answer, "changed": True}, RunState("failed", IMAGE_PULL, error.cause), None)
    if image is None:
        return {**answer, "phase": "Pending", "changed": True, "would_run": True}
    identity = run_hash(plan.spec, image.id)
    name = inspection_name(terms.identifier, identity)
    answer |= {"inspection_id": name, "run_hash": identity, "image_digest": image.digest or image.id}
    asked = run_data(plan.spec, answer["image_digest"])
    answer["specification"] = {"run": asked, "script": plan.spec.script.decode(errors="replace")}
    stored = None if terms.force else _stored(name, identity)
    if terms.check_mode:
        answer["would_run"] = stored is None
    if stored is None and terms.check_mode:
        return {**answer, "phase": "Pending", "changed": True, "cached": False}
    changed = answer["changed"] or stored is None
    outcome = stored or _measure(terms, plan, image, name, report)
    if stored is None:
        write_cached(result_folder(), name, {"identity": identity, "outcome": outcome}, "the results")
    told = {**answer, "changed": changed, "cached": stored is not None, "attempt": 1}
    return with_outcome(told, outcome_state(outcome), outcome)


def _measure(terms: InspectionOptions, plan: RunPlan, image: _Image, name: str, report: Report) -> Data:
    """All repetitions; those after too many failures are left out, as a Job does it."""
    items: list[Data] = []
    placements: list[Data] = []
    failures = 0
    for index in range(plan.spec.repetitions):
        if failures > plan.spec.allowed_failures:
            facts = ItemFacts(index=index, image=plan.spec.image, reason=CANCELLED, message=_NOT_RUN)
            item = item_from_frame(read_frames(b""), facts) | {"message": _NOT_RUN}
        else:
            report(f"{name}: run {index + 1} of {plan.spec.repetitions}")
            item = _repetition(plan.spec, str(terms.collector), image, name, index, plan.home)
        placement = verify_placement(plan.ask, None, item["hwinfo"])
        items.append(item | {"placement_verified": placement.verified})
        placements.append({"index": index, "verified": placement.verified, "found": list(placement.asked_found)})
        failures += item["reason"] is not None
    reason, message = failure_of(items, plan.spec.allowed_failures)
    return {"items": items, "placements": placements, "reason": reason, "message": message}


def _repetition(spec: RunSpec, collector: str, image: _Image, name: str, index: int, home: str | None) -> Data:
    """One repetition in a container of its own, which is removed whatever happens."""
    bundles = run_bundles(spec, collector)
    context = JobContext(name, {}, {bundle.key: bundle.key for bundle in bundles})
    pod = run_job(spec, PodOptions(home=home), bundles, context)["spec"]["template"]["spec"]
    container = f"{name}-{index}-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="muster-inspect-") as folder_name:
        folder = pathlib.Path(folder_name)
        _lay_out(folder, spec, {key: data for bundle in bundles for key, data in bundle.files.items()})
        command = _command(pod["containers"][0], spec, folder, container, index)
        try:
            code, timed_out, problem = _execute(command, folder / "log", container, spec.timeout)
            oom = _podman("inspect", "--format", "{{.State.OOMKilled}}", container).stdout.strip() == "true"
        finally:
            _podman("rm", "--force", "--time", "0", container)
        log = _end_of(folder / "log")
    reason, message = _reason(code, timed_out, oom, problem, spec.timeout)
    facts = ItemFacts(
        index=index,
        image=spec.image,
        image_digest=image.digest,
        node_name=platform.node(),
        exit_code=code,
        reason=reason,
        message=message,
    )
    return item_from_frame(read_frames(log), facts)


def _lay_out(folder: pathlib.Path, spec: RunSpec, files: t.Mapping[str, bytes]) -> None:
    """The folders a pod would have as volumes; whoever the image's user is can read and write them."""
    modes = {f"file-{position:04d}": item.mode for position, item in enumerate(spec.files)}
    folder.chmod(0o755)
    for name, mode in (("content", 0o755), ("work", 0o777), ("hwinfo", 0o777), ("home", 0o777)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    for key, content in files.items():
        target = folder / "content" / key
        target.write_bytes(content)
        target.chmod(modes.get(key, 0o444))


def _command(container: Data, spec: RunSpec, folder: pathlib.Path, name: str, index: int) -> list[str]:
    """The container of the Job as a call of podman."""
    known = {
        "MUSTER_INDEX": str(index),
        "MUSTER_NODE_NAME": platform.node(),
        "MUSTER_POD_NAME": name,
        "MUSTER_POD_UID": "",
        "MUSTER_LIMIT_CPU": _amount(spec, "cpu", NANO // 1000),
        "MUSTER_LIMIT_MEMORY": _amount(spec, "memory", NANO),
    }
    variables = {entry["name"]: _value(entry, known) for entry in container["env"]}
    places = {CONTENT_FOLDER: "content", WORK_FOLDER: "work", OLD_HWINFO_FOLDER: "hwinfo"}
    mounts = []
    for mount in container["volumeMounts"]:
        named = "home" if mount["name"] == "home" else f"content/{mount.get('subPath')}"
        source = folder / places.get(mount["mountPath"], named)
        mounts += ["--volume", f"{source}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}"]
    program, *arguments = container["command"]
    return [
        *(PROGRAM, "run", "--name", name, "--pull", "never", "--entrypoint", program),
        *_limits(spec),
        *_rights(container["securityContext"]),
        *(word for key, value in variables.items() for word in ("--env", f"{key}={value}")),
        *mounts,
        *(spec.image, *arguments, *(_plain(text) for text in container["args"])),
    ]


def _value(entry: Data, known: t.Mapping[str, str]) -> str:
    """The value of a variable; what a cluster would look up is known here, except its Secrets."""
    name = str(entry["name"])
    if "value" in entry:
        return _plain(str(entry["value"]))
    if name not in known:
        raise BadInput("run", f"run: env.{name}", "engine local knows no Secrets")
    return known[name]


def _limits(spec: RunSpec) -> list[str]:
    """Limits as podman takes them; what it cannot limit is refused rather than dropped."""
    options = []
    for name, value in spec.resources.items():
        if name == "cpu":
            options += ["--cpus", f"{parse_quantity(value) / NANO:g}"]
        elif name == "memory":
            options += ["--memory", f"{parse_quantity(value) // NANO}b"]
        else:
            raise BadInput("run", f"run: requests.{name}", "engine local can limit cpu and memory only")
    return options


def _rights(context: Data) -> list[str]:
    """The rights of the container as podman takes them."""
    options = []
    if "runAsUser" in context:
        group = f":{context['runAsGroup']}" if "runAsGroup" in context else ""
        options += ["--user", f"{context['runAsUser']}{group}"]
    if context.get("privileged"):
        return [*options, "--privileged"]
    if not context["allowPrivilegeEscalation"]:
        options += ["--security-opt", "no-new-privileges"]
    if context["seccompProfile"]["type"] == "Unconfined":
        options += ["--security-opt", "seccomp=unconfined"]
    options += ["--cap-drop", "all"]
    return options + [word for name in context["capabilities"].get("add", ()) for word in ("--cap-add", name)]


def _amount(spec: RunSpec, name: str, unit: int) -> str:
    """A limit as a whole number of units, as a pod would be told it; empty without one."""
    value = spec.resources.get(name)
    return "" if value is None else str(-(-parse_quantity(value) // unit))


def _plain(text: str) -> str:
    """A text as the kubelet would hand it on."""
    return text.replace("$$", "$")


def _execute(command: t.Sequence[str], log: pathlib.Path, name: str, timeout: float) -> tuple[int | None, bool, str]:
    """Run the container to its end, or stop it at its timeout: exit code, whether it was stopped, podman's words."""
    with log.open("wb") as output, log.with_name("errors").open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        try:
            timed_out = not _ends_in_time(process, name, timeout)
            if timed_out:
                _stop(process, name)
        except BaseException:
            process.kill()
            process.wait()
            raise
    problem = _end_of(log.with_name("errors")).decode(errors="replace").strip()
    return process.returncode, timed_out, problem


def _ends_in_time(process: subprocess.Popen[bytes], name: str, timeout: float) -> bool:
    """Whether a container ends before its timeout, which begins with the container and not with podman's own work."""
    latest_start = time.monotonic() + _START_SECONDS
    left = timeout
    while True:
        try:
            process.wait(left)
        except subprocess.TimeoutExpired:
            ran = _seconds_since_start(name)
            if ran is None and time.monotonic() < latest_start:
                left = _LOOK_SECONDS
            elif ran is None or ran >= timeout:
                return False
            else:
                left = max(_LOOK_SECONDS, timeout - ran)
        else:
            return True


def _seconds_since_start(name: str) -> float | None:
    """How long ago a container was started; None when it was not yet."""
    found = _podman("container", "inspect", "--format", "{{.State.StartedAt.UnixNano}}", name)
    text = found.stdout.strip()
    if found.returncode or not text.isdecimal():
        # The time of one that was only created lies before all others, and is negative.
        return None
    return time.time() - int(text) / 1e9


def _stop(process: subprocess.Popen[bytes], name: str) -> None:
    """End a container; podman itself is killed if it goes on, and whoever called us removes what is left."""
    _podman("stop", "--time", str(_STOP_SECONDS), name)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(code: int | None, timed_out: bool, oom: bool, problem: str, timeout: float) -> tuple[str | None, str]:
    """Why a container failed, as a cluster would say it."""
    if timed_out:
        return TIMEOUT, f"it ran longer than {timeout:g} s"
    if oom and code:
        return OOM, "the container used more memory than its limit"
    if code:
        return SCRIPT_FAILED, problem or f"the container ended with exit code {code}"
    return None, ""


def _end_of(path: pathlib.Path) -> bytes:
    """The end of a file that may be large."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOG_BYTES))
        return file.read()


def _find_image(reference: str, *, pull: bool) -> _Image | None:
    """The image in the local storage, pulled when it is not there; None when it would have to be."""
    for last in (False, True):
        found = _podman("image", "inspect", "--format", "{{.Id}} {{.Digest}}", reference)
        if found.returncode == 0:
            words = found.stdout.split()
            return _Image(words[0].removeprefix("sha256:"), words[1] if len(words) > 1 else None)
        if not pull:
            return None
        if not last:
            pulled = _podman("pull", "--quiet", reference)
            if pulled.returncode:
                raise _NoImage("pull", f"image {reference}", (pulled.stderr.strip().splitlines() or ["it failed"])[-1])
    raise _NoImage("find", f"image {reference}", "it was pulled and is not there")


def _podman(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A short call of podman."""
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def _stored(name: str, identity: str) -> Data | None:
    """Results of an earlier run that answer this task."""
    kept = read_cached(result_folder(), name)
    if kept is None or kept.get("identity") != identity or not isinstance(kept.get("outcome"), dict):
        return None
    outcome: Data = kept["outcome"]
    return None if outcome_problem(outcome) is not None or worth_repeating(outcome) else outcome
