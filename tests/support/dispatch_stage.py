# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A dispatcher in this process over the namespace of one test, and what that test looks at afterwards."""

from __future__ import annotations

import contextlib
import copy
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult, run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch, replace
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION, Batch, LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_KEY, RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import batch_text
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import GangState
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    PODSET_LABEL,
    TICKET_LABEL,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Decision
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.gang_cases import (
    app_wrapper,
    gang_record,
    job,
    kwok_node,
    node_pool,
    pod,
    pod_template,
)
from ansible_collections.muster.kube.tests.support.live_cluster import DEADLINE, LiveCluster, wait_until

Object = dict[str, t.Any]

# Longer than a busy machine keeps a renewal waiting; a stage leaves its Lease when a run is over.
LEASE_SECONDS = 15.0
# No controller makes pods for a Job, or a Ray object, that says somebody else looks after it.
NOBODYS_JOB = "example.com/nobody"
NOBODYS_RAY = "kueue.x-k8s.io/multikueue"


class Stage:
    """One namespace with a pool of nodes of its own, a Lease of its own, and runs of the dispatcher over it."""

    def __init__(self, cluster: LiveCluster, namespace: str, kubeconfig: str | None = None) -> None:
        """The kubeconfig is for the dispatcher, which may be sent through a proxy; the test itself goes straight."""
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.pool = namespace
        self.lease = LeaseOptions("default", f"dispatch-{namespace}", LEASE_SECONDS)
        self.lines: list[str] = []
        self._clients = (cluster.connect(kubeconfig), cluster.connect(kubeconfig))
        self._nodes: list[str] = []
        self._provides_lease = True

    def close(self) -> None:
        """Remove the nodes and the Lease; the namespace goes with its fixture."""
        self.cluster.remove_nodes(self._nodes)
        with contextlib.suppress(NotFound):
            delete(self.client, self.lease_path)

    # Running.

    def run(self, **terms: t.Any) -> DispatchResult:
        """One cycle, or what the terms say."""
        settings: dict[str, t.Any] = {"lease": self.lease, "namespaces": (self.namespace,), **terms}
        self.ensure_lease()
        return run_dispatch(*self._clients, DispatchOptions(**settings), self.lines.append)

    @contextlib.contextmanager
    def without_lease(self) -> t.Iterator[None]:
        """Runs inside create the Lease themselves."""
        with contextlib.suppress(NotFound):
            delete(self.client, self.lease_path)
        self._provides_lease = False
        try:
            yield
        finally:
            self._provides_lease = True

    def ensure_lease(self) -> None:
        """Have a Lease before the first run: nobody has to wait for holders of an earlier one."""
        if self._provides_lease and get_object(self.client, self.lease_path) is None:
            self.cluster.create(free_lease(self.lease))

    def run_until(self, phases: t.Mapping[str, str], **terms: t.Any) -> DispatchResult:
        """Cycles until these gangs are in these phases."""
        wanted = {self.record(name).uid: phase for name, phase in phases.items()}
        result = self.run_for(lambda seen: all(seen.get(uid) == phase for uid, phase in wanted.items()), **terms)
        seen = {name: self.phase(name) for name in phases}
        assert seen == dict(phases), (seen, [item.line() for item in result.decisions], result.warnings)
        return result

    def run_for(self, until: t.Callable[[t.Mapping[str, str]], bool], **terms: t.Any) -> DispatchResult:
        """Cycles until the phases by uid are what the caller waits for; returns in any case, for the caller to look."""
        settings: dict[str, t.Any] = {"lease": self.lease, "namespaces": (self.namespace,), **terms}
        self.ensure_lease()
        return run_dispatch(
            *self._clients, DispatchOptions(duration=DEADLINE, **settings), self.lines.append, until=until
        )

    # Making.

    def nodes(self) -> list[Object]:
        """The nodes of this stage as they are now."""
        paths = [resource_path("v1", "nodes", name=name) for name in self._nodes]
        return [node for path in paths if (node := get_object(self.client, path)) is not None]

    def add_nodes(self, count: int = 1, **amounts: str) -> list[str]:
        """Nodes of this stage's pool; their names."""
        names = [node["metadata"]["name"] for node in node_pool(self.pool, count, **amounts)]
        return self.add_node(*(kwok_node(name, self.pool, **amounts) for name in names))

    def add_node(self, *nodes: Object) -> list[str]:
        """Nodes as they are given; they are removed at the end."""
        self._nodes += [node["metadata"]["name"] for node in nodes]
        self.cluster.add_nodes(nodes)
        return [node["metadata"]["name"] for node in nodes]

    def remember_nodes(self, *names: str) -> None:
        """Have nodes removed at the end that were made otherwise."""
        self._nodes += names

    def job(self, name: str, pods: int = 1, **settings: t.Any) -> Object:
        """A Job in this stage's pool."""
        return job(name, self.pool, pods, **settings)

    def podless_job(self, name: str, pods: int = 1, **settings: t.Any) -> Object:
        """A Job whose pods nobody makes: it stays outstanding until the test makes them itself."""
        made = self.job(name, pods, **settings)
        made["spec"]["managedBy"] = NOBODYS_JOB
        return made

    def ray_cluster(
        self, name: str, workers: int = 1, *, managed: bool = True, cpu: str = "1", **group: t.Any
    ) -> Object:
        """A RayCluster of a head and one group; one that is not managed gets no pods."""
        template = pod_template(self.pool, {"cpu": cpu}, None)
        template["spec"].pop("restartPolicy")
        spec: Object = {
            "rayVersion": "2.46.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [
                {
                    "groupName": "workers",
                    "replicas": workers,
                    "minReplicas": 0,
                    "maxReplicas": 10,
                    "rayStartParams": {},
                    "template": copy.deepcopy(template),
                    **group,
                }
            ],
        }
        if not managed:
            spec["managedBy"] = NOBODYS_RAY
        return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}

    def submit(self, name: str, *objects: Object, **options: t.Any) -> Record:
        """Queue a gang in a ConfigMap."""
        return record_from_api(self.cluster.create(gang_record(name, self.namespace, objects, **options))[0])

    def wrap(self, name: str, *items: Object, **options: t.Any) -> Record:
        """Queue a gang in an AppWrapper."""
        return record_from_api(self.cluster.create(app_wrapper(name, self.namespace, items, **options))[0])

    def occupy(self, name: str, node: str, **requests: str) -> Object:
        """A pod of nobody in particular that sits on a node."""
        return self.cluster.create(pod(name, self.namespace, None, node=node, **requests))[0]

    def gang_pod(self, record: Record, name: str, podset: str, node: str, **fields: t.Any) -> Object:
        """A pod of a gang, made by the test where no controller does; fields go to its metadata."""
        made = pod(name, self.namespace, None, node=node, **fields.pop("requests", {"cpu": "1"}))
        made["metadata"].update({"labels": {GANG_LABEL: record.uid, PODSET_LABEL: podset}, **fields})
        return self.cluster.create(made)[0]

    # Looking.

    def raw(self, name: str, kind: str = "configmaps") -> Object | None:
        """An object of the core group by its plural and name."""
        return get_object(self.client, resource_path("v1", kind, self.namespace, name))

    def find(self, obj: Object) -> Object | None:
        """The live object of this kind and name in the stage's namespace."""
        placed = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        return get_object(self.client, self.cluster.path(placed))

    def record(self, name: str) -> Record:
        """The record of a gang, in whichever store it is."""
        found = self.raw(name)
        if found is None:
            found = get_object(
                self.client, resource_path("workload.codeflare.dev/v1beta1", "appwrappers", self.namespace, name)
            )
        assert found is not None, f"there is no record {name}"
        return record_from_api(found)

    def state(self, name: str) -> GangState:
        """The state of a gang that must have one."""
        state = self.record(name).state
        assert state is not None, f"{name} has no state"
        return state

    def phase(self, name: str) -> str:
        """The phase of a gang."""
        return self.record(name).phase

    def phases(self) -> dict[str, str]:
        """The phases of all gangs in ConfigMaps, by name."""
        path = resource_path("v1", "configmaps", self.namespace)
        found = list_objects(self.client, path, keep=record_from_api, label_selector=RECORD_LABEL).items
        return {record.name: record.phase for record in found}

    def pods(self, selector: str | None = None) -> list[Object]:
        """The pods of the namespace that are not on their way out."""
        found = self.cluster.pods(self.namespace, selector)
        return [item for item in found if not item["metadata"].get("deletionTimestamp")]

    def tickets(self) -> list[Object]:
        """The tickets of the namespace."""
        path = resource_path("v1", "configmaps", self.namespace)
        return list_objects(self.client, path, keep=lambda raw: raw, label_selector=TICKET_LABEL).items

    def events(self, name: str) -> list[Object]:
        """The Events about a record."""
        path = resource_path("v1", "events", self.namespace)
        found = list_objects(self.client, path, keep=lambda raw: raw).items
        return [item for item in found if item["involvedObject"]["name"] == name]

    # Meddling.

    def edit(self, name: str, **changes: t.Any) -> None:
        """Change the specification in a ConfigMap record as a user would, leaving all else."""
        raw = self.record(name).raw
        raw["data"][RECORD_KEY] = json.dumps({**json.loads(raw["data"][RECORD_KEY]), **changes})
        replace(self.client, self.cluster.path(raw), raw)

    def annotate(self, name: str, **annotations: str | None) -> None:
        """Set annotations of a ConfigMap record."""
        path = resource_path("v1", "configmaps", self.namespace, name)
        patch(self.client, path, {"metadata": {"annotations": annotations}}, patch_type="merge")

    @property
    def lease_path(self) -> str:
        """Where the Lease lies."""
        return resource_path("coordination.k8s.io/v1", "leases", self.lease.namespace, self.lease.name)


def free_lease(terms: LeaseOptions) -> Object:
    """A Lease that nobody holds, as one leaves it who has seen that nothing is under way."""
    nothing = batch_text(Batch("none", "none", (), {}))
    metadata = {"name": terms.name, "namespace": terms.namespace, "annotations": {BATCH_ANNOTATION: nothing}}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def told(result: DispatchResult, name: str) -> Decision:
    """The last decision about a gang, which there must be; with its namespace where there are several of the name."""
    about = [item for item in result.decisions if f"/{item.gang}".endswith(f"/{name}")]
    assert about, f"nothing was decided about {name}: {[item.line() for item in result.decisions]} {result.warnings}"
    return about[-1]


def actions(result: DispatchResult, name: str) -> list[str]:
    """What was done about a gang, in order."""
    return [item.action for item in result.decisions if item.gang.endswith(f"/{name}")]


def short_of(decision: Decision, resource: str = "cpu") -> tuple[str, str]:
    """What a waiting gang asks for in all and what is free on the nodes it may use."""
    assert decision.verdict is not None
    totals = [layer["totals"] for layer in decision.verdict["layers"] if layer.get("totals")]
    return totals[0][resource]["requested"], totals[0][resource]["free"]


def wait_gone(what: str, probe: t.Callable[[], object]) -> None:
    """Wait until something is found no more."""
    wait_until(f"{what} to go", lambda: not probe())
