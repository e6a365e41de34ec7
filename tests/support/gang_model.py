# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Short ways to write started gangs in tests: live objects of every kind, their pods, and states."""

from __future__ import annotations

import copy
import itertools

from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import podset_label
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text

RECORD = "record-1"
# When the gangs of these tests are dispatched.
T0 = read_time("2026-01-01T00:00:00Z")

_numbers = itertools.count(1)


def template(cpu="1", **spec):
    """A pod template of one container."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {}}, "spec": {"containers": [container], **spec}}


def live(obj, *, uid=None, status=None, deleted=False, **spec):
    """An object as the server holds it: with a uid, a status and a changed specification."""
    found = copy.deepcopy(obj)
    found["metadata"]["uid"] = uid or f"{obj['kind']}-{obj['metadata']['name']}"
    found["metadata"]["namespace"] = "default"
    found["spec"].update(spec)
    found["status"] = status or {}
    if deleted:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


def condition(type_, status="True", message=""):
    """One condition of a status."""
    return {"type": type_, "status": status, "message": message}


def ended(type_, message=""):
    """The status of an object that ended."""
    return {"conditions": [condition(type_, message=message)]}


def ray_cluster(name="ray", replicas=2, cpu="1", **group):
    """A RayCluster of one worker group."""
    workers = {"groupName": "small", "replicas": replicas, "template": template(cpu), **group}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {"headGroupSpec": {"template": template(cpu)}, "workerGroupSpecs": [workers]},
    }


def ray_job(name="ray", replicas=2, **spec):
    """A RayJob with a cluster of its own and the operator's submitter."""
    cluster = ray_cluster(name, replicas)["spec"]
    metadata = {"name": name}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata,
        "spec": {"rayClusterSpec": cluster, **spec},
    }


def deployment(name="web", replicas=2, kind="Deployment", cpu="1", **spec):
    """A Deployment, or a StatefulSet."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": template(cpu), **spec},
    }


def pytorch_job(name="train", workers=2, **spec):
    """A PyTorchJob with a master."""
    replicas = {
        "Master": {"replicas": 1, "template": template()},
        "Worker": {"replicas": workers, "template": template()},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": replicas, **spec},
    }


def job_set(name="set", jobs=(("a", 1, 2), ("b", 2, 2)), **spec):
    """A JobSet of replicated jobs: name, replicas, parallelism."""
    entries = [
        {
            "name": key,
            "replicas": n,
            "template": {"spec": {"parallelism": size, "completions": size, "template": template()}},
        }
        for key, n, size in jobs
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": entries, **spec},
    }


def spec_of(*objects, **options):
    """The specification of a gang of these objects."""
    data = {"name": "g", "namespace": "default", "objects": [copy.deepcopy(item) for item in objects], **options}
    return read_spec(data, "gang default/g")


def started(phase="dispatched", at=T0, **changes):
    """The state of a gang that was dispatched at a time, and is in this phase since then."""
    state = new_state(time_text(at - 60), "w/1/1")
    state = advance(state, "dispatching", time_text(at - 1), "Chosen", "", "w/1/2")
    state = advance(state, "dispatched", time_text(at), "Started", "", "w/1/3", started_at=time_text(at))
    return advance(state, phase, time_text(at), "Test", "", "w/1/4", **changes)


def gang_pod(podset="work", **parts):
    """A pod of a gang; see raw_pod."""
    return gang_pod_from_api(raw_pod(podset, **parts))


def raw_pod(
    podset="work",
    *,
    on="a",
    phase="Running",
    gang=RECORD,
    namespace="default",
    owners=(),
    labels=None,
    cpu="1",
    created=T0,
    attempt=None,
    deleted=None,
    finished=None,
    code=None,
    unschedulable=None,
):
    """A Pod object; times are in seconds, podset None leaves that label out."""
    number = next(_numbers)
    marks = {"muster.kube/gang": gang, "muster.kube/podset": podset_label(podset) if podset else None}
    marks["muster.kube/attempt"] = None if attempt is None else str(attempt)
    metadata = {
        "name": f"pod-{number}",
        "namespace": namespace,
        "uid": f"uid-{number}",
        "creationTimestamp": time_text(created),
        "labels": {**{key: value for key, value in marks.items() if value is not None}, **(labels or {})},
        "ownerReferences": [{"kind": "Job", "name": uid, "uid": uid, "controller": True} for uid in owners],
    }
    status = {"phase": phase, "conditions": []}
    if deleted is not None:
        metadata.update(deletionTimestamp=time_text(deleted + 30), deletionGracePeriodSeconds=30)
    if finished is not None or code is not None:
        end = {"exitCode": code or 0, "finishedAt": None if finished is None else time_text(finished)}
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": end}}]
    if unschedulable is not None:
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes fit"}
        status["conditions"].append({**told, "lastTransitionTime": time_text(unschedulable)})
    body = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    if on:
        body["nodeName"] = on
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body, "status": status}
