# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What in the objects of an elastic job makes a change of its size lose work, though nothing forbids it.

Each hazard is told once for a job, with the first place where it is.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import (
    ResizeTarget,
    field_text,
    find_at,
    resize_targets,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import ElasticTerms
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Object, Path, ResizeTerms
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of

# A trainer that saves after SIGTERM should be given at least so many seconds, which is what Kubernetes gives by itself.
LEAST_GRACE = 30
# Volumes whose contents are still there when the next pod comes.
LASTING_VOLUMES = frozenset(
    {
        *("persistentVolumeClaim", "hostPath", "nfs", "csi", "cephfs", "glusterfs", "iscsi", "fc", "rbd", "cinder"),
        *("azureFile", "azureDisk", "awsElasticBlockStore", "gcePersistentDisk", "vsphereVolume", "portworxVolume"),
        *("quobyte", "storageos", "scaleIO", "flexVolume", "flocker", "photonPersistentDisk"),
    }
)
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
_SCRIPT_OPTION = re.compile(r"-[a-z]*c[a-z]*")
# A script that gives way to the trainer, or passes signals on.
_PASSES_SIGNALS = re.compile(r"(?:^|[\s;&|({])(?:exec|trap)\s")
_FIXED_NUMBER = re.compile(r"--(?:num[_-]processes|nproc[_-]per[_-]node)(?:[=\s]+|$)[\"']?\d+")

Find = Callable[[ResizeTarget, ElasticTerms], "str | None"]


def hazards(objects: Sequence[Object], terms: ElasticTerms, namespace: str) -> tuple[str, ...]:
    """The warnings about a job's objects, in the order of the checks."""
    resource = terms.range.resource
    trained = [item for item in resize_targets(objects, namespace) if item.containers(resource) and _pod(item)]
    told = [next((text for item in trained if (text := find(item, terms))), None) for find in _CHECKS]
    if trained and not any(map(_keeps_files, trained)):
        told.append(_no_kept_volume(trained[0]))
    return tuple(text for text in told if text is not None)


def _no_second_try(target: ResizeTarget, _terms: ElasticTerms) -> str | None:
    """Whether a pod that ends is one that failed."""
    beside = (*_inside(target)[:-1], "restartPolicy") if _inside(target) else ()
    if beside and find_at(target.obj, beside) is not None:
        policy, where = find_at(target.obj, beside), beside
    else:
        where = (*_inside(target), "spec", "restartPolicy")
        policy = find_at(target.obj, where)
    if policy != "Never":
        return None
    place = field_text(target, where)
    return f"{place} is Never: a pod that ends because the size changes can count as one that failed; use OnFailure"


def _deaf_shell(target: ResizeTarget, _terms: ElasticTerms) -> str | None:
    """Whether a shell keeps SIGTERM from the trainer."""
    for where, container in _containers(target):
        words = _command(container)
        script = _script(words)
        if script is not None and not _PASSES_SIGNALS.search(script):
            return (
                f"{where}: its command is a shell without exec, and SIGTERM does not arrive at what the shell runs; "
                "begin the last command of the script with exec, or leave the shell out"
            )
    return None


def _short_grace(target: ResizeTarget, terms: ElasticTerms) -> str | None:
    """Whether pods that save after SIGTERM are killed before they can have done so."""
    if terms.timing != "on_sigterm":
        return None
    where = (*_inside(target), "spec", "terminationGracePeriodSeconds")
    seconds = find_at(target.obj, where)
    if seconds is not None and seconds >= LEAST_GRACE:
        return None
    has = f"it is not set, which makes it {LEAST_GRACE} s" if seconds is None else f"it is {seconds} s"
    return (
        f"{field_text(target, where)}: {has}; with timing on_sigterm pods need so long as they take to save, and more"
    )


def _ends_well(target: ResizeTarget, terms: ElasticTerms) -> str | None:
    """Whether a trainer that saves after SIGTERM and then ends with 0 can end its job; nobody can see that it does."""
    ending = kind_of(target.obj).ending
    if terms.timing != "on_sigterm" or ending is None or not ending.by_pods or not ending.applies(target.obj):
        return None
    return (
        f"{target.where}: pods of a {target.obj['kind']} that end with 0 count as done; with timing on_sigterm a "
        "trainer should end with another code after SIGTERM, such as 143. A resize ends no job by it, but a drained "
        "node does"
    )


def _time_begins_anew(target: ResizeTarget, terms: ElasticTerms) -> str | None:
    """Whether the time after which an object is ended by force is counted from its last resize on."""
    kind = kind_of(target.obj)
    seconds = kind.deadline_seconds(target.obj)
    if seconds is None or kind.deadline is None or target.podset.name != terms.range.podset:
        return None
    batch = terms.range.batch is not None
    method = target.resizing.method(
        target.obj, terms.range.axis, ResizeTerms(batch, suspended_jobs_change=True, shrinks=True)
    )
    if method == "scale" and not target.at:
        return None
    return (
        f"{field_text(target, kind.deadline)} is {seconds:g} s: it begins anew with each change of size that stops the "
        "pods; the option max_run_time counts all sizes together"
    )


def _keeps_files(target: ResizeTarget) -> bool:
    """Whether a container of a pod mounts a volume that outlives the pod."""
    lasting = {item.get("name") for item in _pod(target).get("volumes") or () if LASTING_VOLUMES & item.keys()}
    claims = find_at(target.obj, ("spec", "volumeClaimTemplates")) or ()
    lasting |= {find_at(item, ("metadata", "name")) for item in claims}
    mounts = (
        item.get("name")
        for _where, container in _containers(target)
        for field in ("volumeMounts", "volumeDevices")
        for item in container.get(field) or ()
    )
    return any(name in lasting for name in mounts)


def _no_kept_volume(target: ResizeTarget) -> str:
    """What the trainer saves goes with its pod."""
    where = field_text(target, (*_inside(target), "spec", "volumes"))
    return (
        f"{where}: its containers mount no volume that outlives the pod (a PersistentVolumeClaim, hostPath, nfs, csi); "
        "unless checkpoints are sent elsewhere, each change of size begins from nothing"
    )


def _fixed_number(target: ResizeTarget, terms: ElasticTerms) -> str | None:
    """Whether the number of processes stays the same whatever GPUs a pod gets."""
    if terms.range.axis != "per_pod" or target.podset.name != terms.range.podset:
        return None
    advice = "it stays the same at all sizes; use $(NGPU) with a variable NGPU, which is set to the size, or auto"
    number = find_at(target.obj, ("spec", "nprocPerNode"))
    if number is not None and str(number).isdecimal():
        return f"{field_text(target, ('spec', 'nprocPerNode'))} is {number}: {advice}"
    for where, container in _containers(target):
        found = _FIXED_NUMBER.search(" ".join(_command(container)))
        if found is not None:
            return f"{where}: its command says {found[0]}: {advice}"
    return None


_CHECKS: tuple[Find, ...] = (_no_second_try, _deaf_shell, _short_grace, _fixed_number, _ends_well, _time_begins_anew)


def _inside(target: ResizeTarget) -> Path:
    """Where the template is, from the object that makes the pods on."""
    return (target.podset.path or ())[len(target.at) :]


def _pod(target: ResizeTarget) -> Mapping[str, t.Any]:
    """The specification of a pod as it is written; empty in objects that hold no template."""
    found = find_at(target.obj, (*_inside(target), "spec")) if target.podset.path is not None else None
    return found if isinstance(found, Mapping) else {}


def _containers(target: ResizeTarget) -> Iterator[tuple[str, Mapping[str, t.Any]]]:
    """The containers of a pod, each with its place for messages."""
    containers = (*_inside(target), "spec", "containers")
    for index, item in enumerate(find_at(target.obj, containers) or ()):
        yield field_text(target, (*containers, index)), item


def _command(container: Mapping[str, t.Any]) -> list[str]:
    """What a container runs, word by word, as far as its image does not say it."""
    return [str(word) for field in ("command", "args") for word in container.get(field) or ()]


def _script(words: Sequence[str]) -> str | None:
    """What a shell is given to run; None when the command is none of a shell."""
    names = [word.rpartition("/")[2] for word in words]
    if names[:1] == ["env"]:
        words, names = words[1:], names[1:]
    if not names or names[0] not in _SHELLS:
        return None
    options = (place for place, word in enumerate(words[1:], 1) if _SCRIPT_OPTION.fullmatch(word))
    place = next(options, None)
    return words[place + 1] if place is not None and place + 1 < len(words) else None
