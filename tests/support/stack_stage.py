# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded components and their cluster in memory: Services get endpoints, and an operator judges its own objects."""

from __future__ import annotations

import base64
import datetime
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.office import Surroundings
from ansible_collections.muster.kube.plugins.module_utils._flow.component.outcome import ProvisionResult
from ansible_collections.muster.kube.plugins.module_utils._flow.component.provision import ProvisionOptions, provision
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import read_component
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import ComponentRecords
from ansible_collections.muster.kube.tests.support.component_stage import (
    ComponentStage,
    config_map,
    deployment,
    namespace,
    widget,
    widget_crd,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Change, Kind, Request
from ansible_collections.muster.kube.tests.support.memory_wire import Line
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Object = dict[str, t.Any]
MORE_KINDS = (
    Kind("v1", "Endpoints", "endpoints"),
    Kind("apps/v1", "DaemonSet", "daemonsets", has_status=True),
    Kind("apps/v1", "StatefulSet", "statefulsets", has_status=True),
    Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    Kind("apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False, has_status=True),
    Kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
    ),
)


def bundle(begin: int = 2020, end: int = 2040) -> str:
    """A certificate that is valid in these years, as a caBundle."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    moments = [datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (begin, end)]
    builder = x509.CertificateBuilder().issuer_name(name).subject_name(name).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(moments[0]).not_valid_after(moments[1])
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(pem).decode()


BUNDLE = bundle()


def service(name: str = "hook", home: str = "home") -> Object:
    """A Service that the pods of its namespace stand behind."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": home},
        "spec": {"selector": {"app": "operator"}},
    }


def hooks(name: str = "widgets-hook", home: str = "home", ca: str = BUNDLE) -> Object:
    """A webhook configuration that calls that Service."""
    client = {"service": {"name": "hook", "namespace": home}, "caBundle": ca}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": "w.example.com", "clientConfig": client}],
    }


def gadget_crd() -> Object:
    """The definition of another kind."""
    found = widget_crd()
    found["metadata"] = {"name": "gadgets.example.org"}
    found["spec"] = {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [{"name": "v1", "served": True}],
    }
    return found


def gadget(name: str = "two", home: str = "middle") -> Object:
    """An object of that kind."""
    return {
        "apiVersion": "example.org/v1",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": home},
        "spec": {"size": 2},
    }


def placed(obj: Object, home: str) -> Object:
    """An object in another namespace."""
    return {**obj, "metadata": {**obj["metadata"], "namespace": home}}


# An operator with its webhook, and an object that it judges.
BASE: Object = {
    "name": "base",
    "version": "1.0.0",
    "definition": [widget(), service(), hooks(), deployment(), namespace(), widget_crd()],
}
# What needs the kind of the first one, and defines another.
MIDDLE: Object = {
    "name": "middle",
    "version": "0.3.1",
    "depends_on": ["base"],
    "definition": [
        gadget_crd(),
        namespace("middle"),
        placed(deployment("mill"), "middle"),
        placed(widget("w"), "middle"),
    ],
    "resources": [gadget()],
}
TOP: Object = {
    "name": "top",
    "version": "2",
    "depends_on": ["middle", "base"],
    "definition": [config_map("settings", "team"), gadget("three", "team"), placed(widget("v"), "team")],
    "smoke": {"definition": [config_map("smoke", "team")]},
}
STACK = (BASE, MIDDLE, TOP)


def changed(component: Object, **more: t.Any) -> Object:
    """A component with other keys."""
    return {**component, **more}


def next_version(component: Object) -> Object:
    """The component in a later version, with one ConfigMap more and other images."""
    home = {"base": "home", "middle": "middle", "top": "team"}[component["name"]]
    objects = [
        {**obj, "spec": {**obj["spec"], "paused": False}} if obj["kind"] == "Deployment" else obj
        for obj in component["definition"]
    ]
    return {**component, "version": "9", "definition": [*objects, config_map(f"news-{component['name']}", home)]}


class _Judge:
    """The operator's webhook: while it has no endpoint, nobody can write its objects."""

    cause = "webhook"
    deletions = False

    def __init__(self, stage: StackStage) -> None:
        self._stage = stage

    def stops(self, request: Request, _now: float) -> bool:
        """Whether a write has to be judged and cannot be."""
        cluster = self._stage.cluster
        hooked = cluster.get("validatingwebhookconfigurations", "", "widgets-hook") is not None
        return request.kind.plural == "widgets" and hooked and cluster.get("endpointslices", "home", "hook") is None


class StackStage(ComponentStage):
    """A cluster, and tasks on several components in it."""

    def __init__(self) -> None:
        """A cluster with more kinds, and a webhook that judges widgets."""
        super().__init__()
        for kind in MORE_KINDS:
            self.cluster.serve(kind)
        self.cluster.listeners.append(self._connect)
        self.cluster.barriers.append(t.cast(t.Any, _Judge(self)))
        self.around = Surroundings(clock=self.cluster.clock, renew_in_background=False)
        self.programs = StagePrograms()

    def task(self, *components: Object, line: Line | None = None, **options: t.Any) -> ProvisionResult:
        """One task."""
        present = options.get("state", "present") == "present"
        read = tuple(read_component(item, needs_source=present) for item in components)
        line = line or self.line
        return provision(line.client, ProvisionOptions(read, **options), self.told.append, self.programs, self.around)

    def course(self, *components: Object, **options: t.Any) -> dict[str, str]:
        """One task: what was done for each component; it must not fail."""
        result = self.task(*components, **options).as_result(diff=True)
        assert not result.get("failed"), result["msg"]
        return {told["name"]: told["action"] for told in result["components"]}

    def record(self, name: str) -> t.Any:
        """The record of a component."""
        found = ComponentRecords(self.line.client()).read(name)
        return None if found is None else found.record

    def left(self) -> dict[str, Object]:
        """All objects there are, without the Lease and what differs from run to run in records."""
        found = {place: obj for place, obj in self.inventory().items() if not place.startswith("leases")}
        for place, obj in found.items():
            if place.startswith("configmaps muster-system/"):
                found[place] = {**obj, "data": {}}
        return found

    def _connect(self, change: Change) -> None:
        """A Service has endpoints while a Deployment of its namespace is available."""
        lost = change.plural == "endpointslices" and change.gone
        if change.plural not in ("services", "deployments") and not lost:
            return
        home = change.object["metadata"]["namespace"]
        up = any((obj.get("status") or {}).get("availableReplicas") for obj in self.cluster.all("deployments", home))
        for obj in self.cluster.all("services", home):
            name = obj["metadata"]["name"]
            there = self.cluster.get("endpointslices", home, name) is not None
            if up and not there and not change.object["metadata"].get("deletionTimestamp"):
                owner = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": obj["metadata"]["uid"]}
                labels = {"kubernetes.io/service-name": name}
                metadata = {"name": name, "namespace": home, "labels": labels, "ownerReferences": [owner]}
                self.cluster.add("endpointslices", {"metadata": metadata, "endpoints": [{"addresses": ["10.0.0.1"]}]})
            elif there and not up:
                self.cluster.remove("endpointslices", home, name)


class StagePrograms:
    """No program of this machine is run by tests in memory; a helm in memory may be."""

    def __init__(self, helm: t.Any = None) -> None:
        self._helm = helm

    def helm(self) -> t.Any:
        """The helm of the test."""
        assert self._helm is not None
        return self._helm

    def kustomize(self, src: str) -> t.NoReturn:
        """Nobody renders kustomizations here."""
        raise AssertionError(src)
