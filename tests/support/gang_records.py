# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Short ways to write submissions and their records in tests of the flow of gang."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import WRAPPER_API
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    GangState,
    advance,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    build_ticket,
    owned_by_ticket,
    plan_objects,
)
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.writable_api import CREATED, WritableApi, discovery

Object = dict[str, t.Any]
RECORDS = "/api/v1/namespaces/team/configmaps"
WRAPPERS = f"/apis/{WRAPPER_API}/namespaces/team/appwrappers"
TRAIN = job("train", 2, requests={"cpu": "1"})


def gang(**options: t.Any) -> Object:
    """The options of one gang in namespace team, a Job of two pods unless said otherwise."""
    return {"namespace": "team", "definition": copy.deepcopy(TRAIN), **options}


def terms(*gangs: Object, state: t.Any = "present", **options: t.Any) -> GangOptions:
    """What a task asks for."""
    return GangOptions(state=state, gangs=tuple(ask(item) for item in gangs or (gang(),)), **options)


def ask(options: Object) -> GangAsk:
    """One gang as the flow gets it from the options of a task."""
    source = {name: options[name] for name in ("name", "namespace", "definition", "src") if name in options}
    podsets = tuple(options["podsets"]) if "podsets" in options else None
    settings = {name: value for name, value in options.items() if name not in (*source, "podsets")}
    return GangAsk(GangSource(**source, podsets=podsets), GangSettings(**settings))


def state_in(phase: t.Any, **changes: t.Any) -> GangState:
    """A state in a phase."""
    return advance(new_state(CREATED, "w/1"), phase, "2026-11-16T03:30:00Z", "Because", "of a test", "w/2", **changes)


def add_record(
    api: WritableApi, name: str = "train", phase: str | None = None, created: str = CREATED, **spec: t.Any
) -> Record:
    """A ConfigMap record, in a phase if one is named."""
    changes = spec.pop("changes", {})
    body = build_record(read_spec({"name": name, "namespace": "team", "objects": [TRAIN], **spec}, name))
    body["metadata"]["creationTimestamp"] = created
    if phase is not None:
        body["metadata"]["annotations"] = {STATE_ANNOTATION: state_text(state_in(phase, **changes))}
    return record_from_api(api.put(f"{RECORDS}/{name}", body))


def set_phase(api: WritableApi, phase: str, name: str = "train", path: str = RECORDS, **changes: t.Any) -> None:
    """Let a dispatcher have moved a gang to another phase."""
    obj = api.objects[f"{path}/{name}"]
    obj["metadata"].setdefault("annotations", {})[STATE_ANNOTATION] = state_text(state_in(phase, **changes))
    api.put(f"{path}/{name}", obj)


def start(api: WritableApi, record: Record) -> Object:
    """Ticket, objects and one pod of a started gang; returns the ticket."""
    plan = plan_objects(record.spec, record.uid, 1)
    draft = build_ticket(record.raw, 1, "digest", plan)
    ticket = api.put(f"{RECORDS}/{draft['metadata']['name']}", draft)
    for item in plan:
        owned = owned_by_ticket(item.object, ticket["metadata"]["uid"])
        made = api.put(f"/apis/batch/v1/namespaces/team/jobs/{item.key[3]}", owned)
        labels = {"muster.kube/gang": record.uid}
        owner = [{"kind": "Job", "name": item.key[3], "uid": made["metadata"]["uid"]}]
        pod = {
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "team", "labels": labels, "ownerReferences": owner},
        }
        api.put("/api/v1/namespaces/team/pods/p", pod)
    return ticket


def wrapper(name: str = "train", **metadata: t.Any) -> Object:
    """An AppWrapper of one Job."""
    items = [{"generictemplate": copy.deepcopy(TRAIN)}]
    return {
        "apiVersion": WRAPPER_API,
        "kind": "AppWrapper",
        "metadata": {"name": name, "namespace": "team", **metadata},
        "spec": {"resources": {"GenericItems": items}},
    }


def serve_wrappers(api: WritableApi, *, ours: bool = True, versions: t.Sequence[str] = ("v1beta1",)) -> None:
    """Have the server know AppWrappers, installed by this collection or by somebody else."""
    group, version = WRAPPER_API.split("/")
    listed = [{"version": name} for name in versions]
    api.fixed[("GET", f"/apis/{group}")] = [(200, {"kind": "APIGroup", "versions": listed})]
    if version in versions:
        api.fixed[("GET", f"/apis/{WRAPPER_API}")] = [(200, discovery(AppWrapper=("appwrappers", True)))]
    crd = {"metadata": {"labels": {"muster.kube/managed": "true"} if ours else {}}}
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/appwrappers.{group}"
    api.put(path, crd)
