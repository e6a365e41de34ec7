# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The build as a Job: the context in ConfigMaps, buildah in a pod of the chosen tier.

The steps of a Dockerfile run in an init container that has the build secrets and never the right to push. The image
goes as a directory to a second container, which runs nothing of it and alone has the push secret.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import (
    BUNDLE_BYTES,
    FileBundle,
    JobContext,
    bundle_files,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import (
    IMAGE_LABEL,
    BuildSettings,
    BuildSpec,
    Tier,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import Context
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import (
    gpu_requests,
    gpu_tolerations,
)

CONTAINER = "build"
PUSHER = "push"
_MOST_BYTES = 16 * BUNDLE_BYTES
_CONTEXT, _WORK, _SECRETS, _AUTH = "/muster/context", "/muster/work", "/muster/secrets", "/muster/auth"
_STORAGE, _OUT, _PRIVATE = "/var/lib/containers", "/muster/out", "/muster/private"
# Values that are masked; a memory file system keeps them off the node's disk.
_PRIVATE_SIZE = "4Mi"
# Build secrets that are no secret as a whole: settings, in which only passwords are, and certificates.
_SETTINGS = ("environment", "netrc", "pip_config", "uv_config", "native_config")
# A finished Job whose task never came back to read it does not stay for ever.
_KEPT_SECONDS = 86_400
_JOB_SLACK = 300


def context_files(context: Context, script: str) -> dict[str, bytes]:
    """The files the builder's script reads, by their keys: itself, the Dockerfile, an index, and numbered files."""
    files: dict[str, bytes] = {"build.sh": script.encode(), "Dockerfile": context.dockerfile.encode()}
    index = []
    for number, file in enumerate(context.files, 1):
        key = f"f{number:04}"
        index += [file.mode, key, file.name]
        files[key] = file.content
    files["index"] = "".join(f"{line}\n" for line in index).encode()
    return files


def bundle_context(context: Context, script: str) -> tuple[FileBundle, ...]:
    """The context in as many ConfigMaps as it takes; what is too large is refused with the number."""
    files = context_files(context, script)
    total = sum(len(content) for content in files.values())
    if total > _MOST_BYTES:
        raise BadInput("build", "the stack", f"its files have {total} bytes of at most {_MOST_BYTES}")
    return bundle_files(files, lambda key: f"the stack: file {_path_of(context, key)}")


def _path_of(context: Context, key: str) -> str:
    """The name of a file in the context behind its key."""
    number = int(key[1:]) if key[1:].isdecimal() else 0
    return context.files[number - 1].name if number else key


def deadline(settings: BuildSettings) -> float:
    """After so many seconds the Job's controller ends it, whatever happened; the pod has a deadline of its own."""
    return settings.timeout + settings.start_timeout + _JOB_SLACK


def build_job(
    spec: BuildSpec,
    settings: BuildSettings,
    tier: Tier,
    affinity: Data | None,
    context: JobContext,
    *,
    probe: bool = False,
) -> Data:
    """The Job that builds and pushes; a probe only tries the tier."""
    pod: Data = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 15,
        "activeDeadlineSeconds": max(1, math.ceil(settings.timeout)),
        "volumes": _volumes(spec, settings, context, probe=probe),
        **_containers(spec, settings, tier, probe=probe),
    }
    if tier == "userns":
        pod["hostUsers"] = False
    if settings.host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "Default"}
    if settings.service_account is not None:
        pod["serviceAccountName"] = settings.service_account
    if settings.pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": settings.pull_secret}]
    if affinity is not None:
        pod["affinity"] = {"nodeAffinity": affinity}
    tolerations = [*settings.tolerations, *gpu_tolerations(settings.hardware)]
    if tolerations:
        pod["tolerations"] = tolerations
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": max(1, math.ceil(deadline(settings))),
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": {"labels": dict(context.labels)}, "spec": pod},
        },
    }


def _containers(spec: BuildSpec, settings: BuildSettings, tier: Tier, *, probe: bool) -> Data:
    """The container that builds and the one that pushes, in that order; a probe only builds."""
    if probe:
        return {"containers": [_container(CONTAINER, spec, settings, tier, {"MUSTER_PROBE": "yes"}, {})]}
    secrets = spec.stack.secrets
    told = {
        "MUSTER_PART": "build",
        "MUSTER_SECRETS": _SECRETS,
        "MUSTER_CONFIGS": " ".join(item.id for item in secrets if item.use in _SETTINGS),
        "MUSTER_OPEN": " ".join(item.id for item in secrets if item.use == "ca"),
        "MUSTER_PULL_AUTH": f"{_AUTH}/pull/config.json" if settings.pull_secret else "",
    }
    mounts = {
        **({"secrets": _SECRETS} if secrets else {}),
        **({"auth-pull": f"{_AUTH}/pull"} if settings.pull_secret else {}),
    }
    builder = _container(CONTAINER, spec, settings, tier, told, mounts)
    told = {
        "MUSTER_PART": "push",
        "MUSTER_PUSH_AUTH": f"{_AUTH}/push/config.json" if settings.push_secret else "",
    }
    mounts = {"auth-push": f"{_AUTH}/push"} if settings.push_secret else {}
    pusher = _container(PUSHER, spec, settings, tier, told, mounts)
    return {"initContainers": [builder], "containers": [pusher]}


def _container(
    name: str,
    spec: BuildSpec,
    settings: BuildSettings,
    tier: Tier,
    told: t.Mapping[str, str],
    mounts: t.Mapping[str, str],
) -> Data:
    """A container with buildah; mounts are the secrets it has, by volume."""
    variables = {
        **build_variables(spec, settings),
        "MUSTER_CONTEXT": _CONTEXT,
        "MUSTER_WORK": _WORK,
        "MUSTER_OUT": _OUT,
        "MUSTER_PRIVATE": _PRIVATE,
        "MUSTER_POD": "yes",
        "MUSTER_STORAGE": "overlay",
        **told,
    }
    gpus = gpu_requests(settings.hardware)
    resources = {"requests": {**settings.requests, **gpus}, "limits": {**settings.limits, **gpus}}
    return {
        "name": name,
        "image": settings.builder_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", f"{_CONTEXT}/build.sh"],
        "env": [{"name": key, "value": value} for key, value in sorted(variables.items()) if value],
        "resources": {key: amounts for key, amounts in resources.items() if amounts},
        "securityContext": _security(tier),
        "volumeMounts": [
            {"name": "context", "mountPath": _CONTEXT, "readOnly": True},
            {"name": f"{name}-work", "mountPath": _WORK},
            {"name": f"{name}-storage", "mountPath": _STORAGE},
            {"name": f"{name}-private", "mountPath": _PRIVATE},
            {"name": "out", "mountPath": _OUT, **({"readOnly": True} if name == PUSHER else {})},
            *({"name": volume, "mountPath": path, "readOnly": True} for volume, path in mounts.items()),
        ],
    }


def build_variables(spec: BuildSpec, settings: BuildSettings) -> dict[str, str]:
    """The variables of the builder's script wherever it runs; an empty value means none."""
    return {
        "MUSTER_IMAGE": spec.reference,
        "MUSTER_BASE": spec.stack.base if spec.stack.dockerfile is None and spec.stack.base else "",
        "MUSTER_PLATFORM": spec.stack.platform or "",
        "MUSTER_LABEL": f"{IMAGE_LABEL}={spec.spec_hash}",
        "MUSTER_PUSH": "yes" if settings.push else "no",
        "MUSTER_INSECURE": " ".join(settings.insecure_registries),
        "MUSTER_CACHE": settings.cache or "",
    }


def _security(tier: Tier) -> Data:
    """The rights of the builder in a tier."""
    if tier == "privileged":
        return {"runAsUser": 0, "privileged": True}
    context: Data = {"runAsUser": 0, "capabilities": {"add": ["SETFCAP"]}}
    if tier == "unconfined":
        context |= {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}
    return context


def _volumes(spec: BuildSpec, settings: BuildSettings, context: JobContext, *, probe: bool) -> list[Data]:
    """The context as one folder, room of its own for each container, and secrets as files."""
    maps = [{"configMap": {"name": name}} for name in context.bundles.values()]
    volumes: list[Data] = [{"name": "context", "projected": {"sources": maps}}, {"name": "out", "emptyDir": {}}]
    for container in (CONTAINER,) if probe else (CONTAINER, PUSHER):
        volumes += [{"name": f"{container}-{use}", "emptyDir": {}} for use in ("work", "storage")]
        volumes.append({"name": f"{container}-private", "emptyDir": {"medium": "Memory", "sizeLimit": _PRIVATE_SIZE}})
    if probe:
        return volumes
    if spec.stack.secrets:
        volumes.append({"name": "secrets", "projected": {"sources": list(_secret_sources(spec))}})
    for use, name in (("pull", settings.pull_secret), ("push", settings.push_secret)):
        if name is not None:
            items = [{"key": ".dockerconfigjson", "path": "config.json"}]
            volumes.append({"name": f"auth-{use}", "secret": {"secretName": name, "items": items}})
    return volumes


def _secret_sources(spec: BuildSpec) -> t.Iterator[Data]:
    """Each build secret as a file named by its id."""
    for secret in spec.stack.secrets:
        if secret.secret is None:
            cause = "name the Kubernetes Secret that holds it (secret, key)"
            raise BadInput("build", f"the stack: build secret {secret.id}", cause)
        items = [{"key": secret.key or secret.id, "path": secret.id}]
        yield {"secret": {"name": secret.secret, "items": items}}
