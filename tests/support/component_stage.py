# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A component and its cluster in memory: kinds are established, Deployments available, namespaces emptied."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import ComponentOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.run import (
    COMPONENT_LABEL,
    ComponentResult,
    run_component,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Change, Denial, Kind, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_controllers import Controllers
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Line

Object = dict[str, t.Any]
NAME = "widgets"
LABELS = {COMPONENT_LABEL: NAME}


def config_map(name: str, namespace: str = "home", **data: str) -> Object:
    """An object that is what it is at once."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"k": "v"},
    }


def namespace(name: str = "home") -> Object:
    """A namespace to be made."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(name: str = "operator", image: str = "i:1") -> Object:
    """An object that takes its time."""
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "home"},
        "spec": {"replicas": 2, "template": template},
    }


def widget_crd() -> Object:
    """The definition of a kind."""
    names = {"kind": "Widget", "plural": "widgets"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
        },
    }


def widget(name: str = "one") -> Object:
    """An object of that kind."""
    metadata = {"name": name, "namespace": "home"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 1}}


# A component with all that makes order matter, in an order that would not work.
WHOLE = (widget(), config_map("settings"), deployment(), namespace(), widget_crd())


class ComponentStage:
    """A cluster, and tasks on one component in it."""

    def __init__(self) -> None:
        """A cluster with the namespace team, which is nobody's component."""
        self.cluster = MemoryCluster()
        self.line = Line(self.cluster)
        self.told: list[str] = []
        self.deploys = True
        Controllers(self.cluster)
        self.cluster.listeners += [self._establish, self._deploy]
        self.cluster.add("namespaces", {"metadata": {"name": "team"}})

    def run(
        self, *objects: Object, check: bool = False, state: t.Literal["present", "absent"] = "present", **more: t.Any
    ) -> ComponentResult:
        """One task."""
        definition = {"definition": list(objects)} if objects else {}
        options = ComponentOptions(**{"name": NAME, "state": state, "check_mode": check, **definition, **more})
        return run_component(self.line.client, options, self.told.append)

    def actions(self, *objects: Object, **more: t.Any) -> dict[str, str]:
        """One task: what became of each object, in order."""
        return {_short(told): told["action"] for told in self.run(*objects, **more).as_result(diff=True)["objects"]}

    def forbid(self, *plurals: str, verbs: tuple[str, ...], namespaces: tuple[str, ...] | None = None) -> None:
        """Have the server refuse something to the user of the tasks."""
        self.cluster.denials.append(Denial(".*", verbs, plurals, namespaces))

    def trouble(self, *faults: Fault) -> None:
        """Have requests go wrong."""
        self.line.faults.extend(faults)

    def inventory(self) -> dict[str, Object]:
        """All objects there are but for Events, without what the server counts."""
        found = {}
        for plural in self.cluster.kinds:
            for obj in self.cluster.all(plural) if plural != "events" else ():
                metadata = {key: value for key, value in obj["metadata"].items() if key in ("labels", "annotations")}
                place = f"{plural} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
                found[place] = {**obj, "metadata": metadata}
        return found

    def _establish(self, change: Change) -> None:
        """A kind is served a moment after its definition came."""
        if change.plural == "customresourcedefinitions" and change.before is None and not change.gone:
            self.cluster.clock.after(0.5, lambda: self._serve(change.object))

    def _serve(self, crd: Object) -> None:
        """Serve a kind and say so."""
        spec, name = crd["spec"], crd["metadata"]["name"]
        self.cluster.serve(Kind(f"{spec['group']}/v1", spec["names"]["kind"], spec["names"]["plural"]))
        met = {"conditions": [{"type": "Established", "status": "True"}]}
        self.cluster.change("customresourcedefinitions", "", name, lambda obj: obj.update(status=met))

    def _deploy(self, change: Change) -> None:
        """Pods of a Deployment are available a moment after its specification changed."""
        if change.plural != "deployments" or change.gone or not self.deploys:
            return
        if change.before is None or change.before["spec"] != change.object["spec"]:
            place = change.object["metadata"]["namespace"], change.object["metadata"]["name"]
            self.cluster.clock.after(2.0, lambda: self.cluster.change("deployments", *place, _available))


def _available(obj: Object) -> None:
    """Write the status of a Deployment all of whose pods are there."""
    count = obj["spec"]["replicas"]
    obj["status"] = {"observedGeneration": 1, "updatedReplicas": count, "availableReplicas": count}


def _short(told: Object) -> str:
    """An object of the result in few words."""
    return f"{told['kind']} {told['name']}"
