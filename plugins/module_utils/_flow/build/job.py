# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The build as a Job: the context in ConfigMaps, buildah in a pod of the chosen tier."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import Content, JobPlace
from ansible_collections.muster.kube.plugins.module_utils._model.build import (
    IMAGE_LABEL,
    BuildSettings,
    BuildSpec,
    Tier,
)
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.dockerfile import Context
from ansible_collections.muster.kube.plugins.module_utils._policy.hardware import gpu_requests, gpu_tolerations

CONTAINER = "build"
# What one ConfigMap takes; the server's limit is for all of it together.
_MAP_BYTES = 900 * 1024
_MOST_BYTES = 16 * _MAP_BYTES
_CONTEXT, _WORK, _SECRETS, _AUTH = "/muster/context", "/muster/work", "/muster/secrets", "/muster/auth"
_STORAGE = "/var/lib/containers"
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


def contents_of(context: Context, script: str) -> tuple[Content, ...]:
    """The context in as many ConfigMaps as it takes; what is too large is refused with the number."""
    files = context_files(context, script)
    total = sum(len(content) for content in files.values())
    if total > _MOST_BYTES:
        raise BadInput("build", "the stack", f"its files have {total} bytes of at most {_MOST_BYTES}")
    groups: list[dict[str, bytes]] = [{}]
    size = 0
    for key, content in files.items():
        if len(content) > _MAP_BYTES:
            path = _path_of(context, key)
            raise BadInput("build", f"the stack: file {path}", f"it has {len(content)} bytes of at most {_MAP_BYTES}")
        if size + len(content) > _MAP_BYTES:
            groups.append({})
            size = 0
        groups[-1][key] = content
        size += len(content)
    return tuple(Content(f"c{number}", binary=group) for number, group in enumerate(groups))


def _path_of(context: Context, key: str) -> str:
    """The name of a file in the context behind its key."""
    number = int(key[1:]) if key[1:].isdecimal() else 0
    return context.files[number - 1].name if number else key


def deadline(settings: BuildSettings) -> float:
    """After so many seconds the Job's controller ends it, whatever happened; the pod has a deadline of its own."""
    return settings.timeout + settings.start_timeout + _JOB_SLACK


def build_job(
    spec: BuildSpec, settings: BuildSettings, tier: Tier, affinity: Data | None, place: JobPlace, *, probe: bool = False
) -> Data:
    """The Job that builds and pushes; a probe only tries the tier."""
    pod: Data = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 15,
        "activeDeadlineSeconds": max(1, math.ceil(settings.timeout)),
        "containers": [_container(spec, settings, tier, probe=probe)],
        "volumes": _volumes(spec, settings, place, probe=probe),
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
            "template": {"metadata": {"labels": dict(place.labels)}, "spec": pod},
        },
    }


def _container(spec: BuildSpec, settings: BuildSettings, tier: Tier, *, probe: bool) -> Data:
    """The builder."""
    variables = build_variables(spec, settings)
    variables |= {
        "MUSTER_CONTEXT": _CONTEXT,
        "MUSTER_WORK": _WORK,
        "MUSTER_SECRETS": _SECRETS,
        "MUSTER_POD": "yes",
        "MUSTER_PROBE": "yes" if probe else "no",
        "MUSTER_STORAGE": "overlay",
        "MUSTER_PULL_AUTH": f"{_AUTH}/pull/config.json" if settings.pull_secret else "",
        "MUSTER_PUSH_AUTH": f"{_AUTH}/push/config.json" if settings.push_secret else "",
    }
    mounts = [
        {"name": "context", "mountPath": _CONTEXT, "readOnly": True},
        {"name": "work", "mountPath": _WORK},
        {"name": "storage", "mountPath": _STORAGE},
    ]
    if not probe:
        if spec.stack.secrets:
            mounts.append({"name": "secrets", "mountPath": _SECRETS, "readOnly": True})
        mounts += [
            {"name": f"auth-{use}", "mountPath": f"{_AUTH}/{use}", "readOnly": True}
            for use, name in (("pull", settings.pull_secret), ("push", settings.push_secret))
            if name is not None
        ]
    gpus = gpu_requests(settings.hardware)
    resources = {"requests": {**settings.requests, **gpus}, "limits": {**settings.limits, **gpus}}
    return {
        "name": CONTAINER,
        "image": settings.builder_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", f"{_CONTEXT}/build.sh"],
        "env": [{"name": name, "value": value} for name, value in sorted(variables.items()) if value],
        "resources": {name: amounts for name, amounts in resources.items() if amounts},
        "securityContext": _security(tier),
        "volumeMounts": mounts,
    }


def build_variables(spec: BuildSpec, settings: BuildSettings) -> dict[str, str]:
    """What the builder's script is told wherever it runs; empty values mean none."""
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


def _volumes(spec: BuildSpec, settings: BuildSettings, place: JobPlace, *, probe: bool) -> list[Data]:
    """The context as one folder, room to work, and secrets as files."""
    maps = [{"configMap": {"name": name}} for name in place.contents.values()]
    volumes: list[Data] = [
        {"name": "context", "projected": {"sources": maps}},
        {"name": "work", "emptyDir": {}},
        {"name": "storage", "emptyDir": {}},
    ]
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
