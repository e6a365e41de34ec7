# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of kinds: which templates an object has, how many pods each makes, and what operators add."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import pod_limits, pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    NeedsPodsets,
    describe_object,
    path_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import pod_templates, removes_itself
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.gang_model import deployment, pytorch_job

Object = dict[str, t.Any]
MI = 1024**2


def template(cpu: t.Any = 1, memory: str | None = None, **spec: t.Any) -> Object:
    """A pod template of one container."""
    requests = {"cpu": cpu, **({"memory": memory} if memory else {})}
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec}}


def thing(api_version: str, kind: str, spec: Object, **metadata: t.Any) -> Object:
    """An object named x."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": spec}


def sizes(obj: Object) -> dict[str, int]:
    """Podset names and counts; the object must come out unchanged."""
    before = copy.deepcopy(obj)
    uses = pod_templates(obj, "it")
    assert obj == before
    return {use.name: use.count for use in uses}


def at(obj: t.Any, path: tuple[str | int, ...]) -> t.Any:
    """The value a path leads to."""
    for part in path:
        obj = obj[part]
    return obj


def ray(head: Object | None = None, *groups: Object, **spec: t.Any) -> Object:
    """A cluster specification."""
    return {"headGroupSpec": {"template": head or template()}, "workerGroupSpecs": list(groups), **spec}


def group(name: str = "small", cpu: t.Any = 2, memory: str | None = None, **more: t.Any) -> Object:
    """A worker group."""
    return {"groupName": name, "template": template(cpu, memory), **more}


def job_spec(**more: t.Any) -> Object:
    """A Job specification."""
    return {"template": template(), **more}


REPLICATED = [
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
]


@pytest.mark.parametrize(("api_version", "kind"), REPLICATED)
def test_replicated_kinds_count_replicas(api_version: str, kind: str) -> None:
    assert sizes(thing(api_version, kind, {"template": template()})) == {"x": 1}
    assert sizes(thing(api_version, kind, {"replicas": 5, "template": template()})) == {"x": 5}
    assert sizes(thing(api_version, kind, {"replicas": 0, "template": template()})) == {"x": 0}


def test_a_pod_is_its_own_template() -> None:
    obj = thing("v1", "Pod", template()["spec"], labels={"a": "b"})
    (use,) = pod_templates(obj, "it")
    assert (use.count, use.path, use.template, use.owner) == (1, (), obj, "it")


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 2}, 2),
        ({"parallelism": 2, "completions": 9}, 2),
        ({"completions": 9}, 1),
        ({"parallelism": 0}, 0),
        ({"parallelism": 4, "suspend": True}, 4),
    ],
)
def test_jobs_count_the_pods_that_run_at_once(spec: Object, count: int) -> None:
    assert sizes(thing("batch/v1", "Job", job_spec(**spec))) == {"x": count}
    assert sizes(thing("batch/v1", "CronJob", {"jobTemplate": {"spec": job_spec(**spec)}})) == {"x": count}
    replicated = {"replicatedJobs": [{"name": "w", "replicas": 3, "template": {"spec": job_spec(**spec)}}]}
    assert sizes(thing("jobset.x-k8s.io/v1alpha2", "JobSet", {**replicated, "suspend": True})) == {"x/w": 3 * count}


def test_job_pods_carry_the_controllers_label() -> None:
    (use,) = pod_templates(thing("batch/v1", "Job", job_spec()), "it")
    assert use.template["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "x"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}}, {"x/worker": 6}),
        ({"leaderWorkerTemplate": {"workerTemplate": template()}}, {"x/worker": 1}),
        (
            {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 3, "leaderTemplate": template(), "workerTemplate": template()},
            },
            {"x/leader": 2, "x/worker": 4},
        ),
    ],
)
def test_leader_worker_sets_count_groups_of_leader_and_workers(spec: Object, expected: dict[str, int]) -> None:
    assert sizes(thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)) == expected


@pytest.mark.parametrize(
    ("kind", "field", "replicas", "expected"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 3, "Master": 1}, {"x/master": 1, "x/worker": 3}),
        ("PyTorchJob", "pytorchReplicaSpecs", {"worker": 2}, {"x/worker": 2}),
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": None, "Worker": None}, {"x/master": 1, "x/worker": 1}),
        ("TFJob", "tfReplicaSpecs", {"PS": 2, "Worker": 4, "Chief": None}, {"x/chief": 1, "x/ps": 2, "x/worker": 4}),
        ("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}, {"x/master": 1, "x/worker": 2}),
        ("PaddleJob", "paddleReplicaSpecs", {"Worker": 2}, {"x/worker": 2}),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": 8}, {"x/worker": 8}),
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": None, "Worker": 4}, {"x/launcher": 1, "x/worker": 4}),
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": None, "Worker": None}, {"x/launcher": 1, "x/worker": 0}),
    ],
)
def test_kubeflow_jobs_count_replicas(
    kind: str, field: str, replicas: dict[str, int | None], expected: dict[str, int]
) -> None:
    specs = {
        name: {"template": template(), **({} if count is None else {"replicas": count})}
        for name, count in replicas.items()
    }
    obj = thing("kubeflow.org/v1", kind, {field: specs, "runPolicy": {"suspend": True}})
    found = sizes(obj)
    assert found == expected
    assert list(found) == list(expected)
    for use in pod_templates(obj, "it"):
        assert use.path is not None
        assert at(obj, use.path)["spec"]["containers"][0]["name"] == "main"
        assert use.template["metadata"]["labels"]["training.kubeflow.org/job-name"] == "x"


def test_pytorch_workers_wait_for_a_master_in_an_init_container() -> None:
    specs = {"Master": {"template": template("10m", "1Mi")}, "Worker": {"template": template("10m", "1Mi")}}
    both = pod_templates(thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": specs}), "it")
    assert [pod_requests(use.template["spec"])["cpu"] for use in both] == [10, 50]
    del specs["Master"]
    (alone,) = pod_templates(thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": specs}), "it")
    assert pod_requests(alone.template["spec"])["cpu"] == 10


def test_mpi_launchers_of_v1_receive_kubectl_first() -> None:
    spec = {"mpiReplicaSpecs": {"Launcher": {"template": template("10m")}}}
    (old,) = pod_templates(thing("kubeflow.org/v1", "MPIJob", spec), "it")
    (new,) = pod_templates(thing("kubeflow.org/v2beta1", "MPIJob", spec), "it")
    assert pod_requests(old.template["spec"]) == {
        "cpu": 100,
        "memory": 512 * MI,
        "ephemeral-storage": 5 * 1024**3,
        "pods": 1,
    }
    assert pod_requests(new.template["spec"]) == {"cpu": 10, "pods": 1}


@pytest.mark.parametrize(
    ("workers", "count"),
    [
        ({}, 0),
        ({"replicas": 3}, 3),
        ({"replicas": 3, "maxReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 2}, 2),
        ({"minReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 5, "maxReplicas": 3}, 3),
        ({"replicas": 2, "numOfHosts": 4}, 8),
        ({"replicas": 2, "numOfHosts": 0}, 0),
        ({"replicas": 3, "suspend": True}, 0),
        ({"replicas": 3, "suspend": False}, 3),
    ],
)
def test_ray_worker_groups_are_clamped_times_hosts(workers: Object, count: int) -> None:
    assert sizes(thing("ray.io/v1", "RayCluster", ray(None, group(**workers)))) == {"x/head": 1, "x/small": count}


def total(obj: Object, amounts: t.Callable[[Object], dict[str, int]] = pod_requests) -> dict[str, int]:
    """The sum over all pods of an object."""
    result: dict[str, int] = {}
    for use in pod_templates(obj, "it"):
        for name, amount in amounts(t.cast(Object, use.template["spec"])).items():
            result[name] = result.get(name, 0) + use.count * amount
    return {name: amount for name, amount in result.items() if amount}


AUTOSCALER = {"enableInTreeAutoscaling": True}
SEED = ray(template(1, "2G"), group("small-group", 2, "2G", replicas=1, minReplicas=1, maxReplicas=1))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(SEED, {"cpu": 3000, "memory": 4 * 10**9, "pods": 2}, id="the demo's cluster"),
        pytest.param(ray(template(1)), {"cpu": 1000, "pods": 1}, id="head only"),
        pytest.param({"headGroupSpec": {"template": template(1)}}, {"cpu": 1000, "pods": 1}, id="no groups at all"),
        pytest.param(ray(template(1), **AUTOSCALER), {"cpu": 1500, "memory": 512 * MI, "pods": 1}, id="autoscaler"),
        pytest.param(
            ray(template(1), **AUTOSCALER, autoscalerOptions={"resources": {"limits": {"cpu": "200m"}}}),
            {"cpu": 1200, "pods": 1},
            id="autoscaler with own resources",
        ),
        pytest.param(
            ray(template(1), **AUTOSCALER, autoscalerOptions={"resources": {}}),
            {"cpu": 1000, "pods": 1},
            id="autoscaler for free",
        ),
        pytest.param(
            ray(template(1), **AUTOSCALER, autoscalerOptions={"version": "v2"}),
            {"cpu": 1500, "memory": 512 * MI, "pods": 1},
            id="autoscaler options without resources",
        ),
        pytest.param(
            ray(template(1), group("a", "50m", replicas=2)),
            {"cpu": 1400, "memory": 512 * MI, "pods": 3},
            id="tiny workers wait for the head",
        ),
        pytest.param(
            ray(template(1), group("a", 2, "1Gi", replicas=2), group("b", 4, "2Gi", replicas=1, numOfHosts=3)),
            {"cpu": 17000, "memory": 8 * 1024 * MI, "pods": 6},
            id="two groups, several hosts",
        ),
        pytest.param(
            ray(template(1), group("a", 2, "1Gi", replicas=2, suspend=True), suspend=True),
            {"cpu": 1000, "pods": 1},
            id="suspended",
        ),
    ],
)
def test_ray_clusters_ask_for_what_the_operator_creates(spec: Object, expected: dict[str, int]) -> None:
    assert total(thing("ray.io/v1", "RayCluster", spec)) == expected
    assert total(thing("ray.io/v1alpha1", "RayCluster", spec)) == expected
    assert total(thing("ray.io/v1", "RayService", {"rayClusterConfig": spec})) == expected
    assert total(thing("ray.io/v1", "RayJob", {"rayClusterSpec": spec, "submissionMode": "HTTPMode"})) == expected


def test_ray_pods_carry_the_operators_labels() -> None:
    head = template()
    head["metadata"] = {"labels": {"app.kubernetes.io/name": "mine", "ray.io/group": "not mine"}}
    first, second = pod_templates(thing("ray.io/v1", "RayCluster", ray(head, group("a", replicas=1))), "it")
    assert first.template["metadata"]["labels"] == {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "mine",
        "ray.io/cluster": "x",
        "ray.io/group": "headgroup",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "head",
    }
    assert second.template["metadata"]["labels"]["ray.io/group"] == "a"
    assert second.path == ("spec", "workerGroupSpecs", 0, "template")


@pytest.mark.parametrize(
    ("more", "requests", "names"),
    [
        ({}, {"cpu": 1500, "memory": 200 * MI, "pods": 2}, ["x/head", "x/submitter"]),
        ({"submissionMode": "K8sJobMode"}, {"cpu": 1500, "memory": 200 * MI, "pods": 2}, ["x/head", "x/submitter"]),
        ({"submitterPodTemplate": template(3)}, {"cpu": 4000, "pods": 2}, ["x/head", "x/submitter"]),
        ({"submissionMode": "HTTPMode"}, {"cpu": 1000, "pods": 1}, ["x/head"]),
        ({"submissionMode": "InteractiveMode"}, {"cpu": 1000, "pods": 1}, ["x/head"]),
        ({"submissionMode": "SidecarMode"}, {"cpu": 1500, "memory": 200 * MI, "pods": 1}, ["x/head"]),
        ({"suspend": True}, {"cpu": 1500, "memory": 200 * MI, "pods": 2}, ["x/head", "x/submitter"]),
        # The cluster is there already; the pod that submits is not.
        ({"clusterSelector": {"ray.io/cluster": "y"}}, {"cpu": 500, "memory": 200 * MI, "pods": 1}, ["x/submitter"]),
        ({"clusterSelector": {"ray.io/cluster": "y"}, "submissionMode": "HTTPMode"}, {}, []),
    ],
)
def test_ray_jobs_add_their_submitter_by_mode(more: Object, requests: dict[str, int], names: list[str]) -> None:
    obj = thing("ray.io/v1", "RayJob", {"rayClusterSpec": ray(template(1)), **more})
    assert total(obj) == requests
    assert list(sizes(obj)) == names


def test_the_default_submitter_has_its_limits_and_no_place_in_the_object() -> None:
    obj = thing("ray.io/v1", "RayJob", {"rayClusterSpec": ray(template(1))})
    submitter = pod_templates(obj, "it")[1]
    assert submitter.path is None
    assert pod_limits(submitter.template["spec"]) == {"cpu": 1000, "memory": 1024**3}


def test_lists_are_flattened_with_paths_and_owners() -> None:
    items = [thing("v1", "ConfigMap", {}), thing("batch/v1", "Job", job_spec(parallelism=2), namespace="demo")]
    (use,) = pod_templates({"apiVersion": "v1", "kind": "List", "items": items}, "List")
    assert (use.name, use.count, use.path) == ("x", 2, ("items", 1, "spec", "template"))
    assert use.owner == "Job demo/x in List"


def wrapper(*items: Object) -> Object:
    """MCAD's AppWrapper around these items."""
    return thing(
        "workload.codeflare.dev/v1beta1", "AppWrapper", {"resources": {"GenericItems": list(items)}}, namespace="demo"
    )


def declared(replicas: int, **requests: t.Any) -> Object:
    """One entry of custompodresources."""
    return {"replicas": replicas, "requests": requests, "limits": requests}


def test_wrapped_objects_are_counted_where_they_lie() -> None:
    obj = wrapper(
        {"generictemplate": thing("ray.io/v1", "RayCluster", SEED)}, {"generictemplate": thing("v1", "Secret", {})}
    )
    head, worker = pod_templates(obj, "AppWrapper demo/x")
    assert head.path == ("spec", "resources", "GenericItems", 0, "generictemplate", "spec", "headGroupSpec", "template")
    assert head.owner == "RayCluster demo/x in AppWrapper demo/x"
    assert (worker.name, worker.count, worker.requests) == ("x/small-group", 1, None)


def test_declared_pods_of_a_wrapper_win_and_keep_the_constraints() -> None:
    cluster = thing("ray.io/v1", "RayCluster", ray(template(7, nodeSelector={"a": "b"}), group(replicas=1)))
    obj = wrapper({"generictemplate": cluster, "custompodresources": [declared(1, cpu=1), declared(1, cpu=2)]})
    head, worker = pod_templates(obj, "it")
    assert (head.name, head.requests, head.template["spec"]["nodeSelector"]) == ("x/head", {"cpu": 1}, {"a": "b"})
    assert (worker.name, worker.requests, worker.limits) == ("x/small", {"cpu": 2}, {"cpu": 2})


@pytest.mark.parametrize("inner", [thing("batch/v1", "Job", job_spec()), thing("example.com/v1", "Thing", {})])
def test_declared_pods_that_differ_from_the_template_stand_alone(inner: Object) -> None:
    obj = wrapper({"generictemplate": inner, "custompodresources": [declared(2, cpu=1), declared(3, cpu=2)]})
    uses = pod_templates(obj, "it")
    assert [(use.name, use.count, use.path) for use in uses] == [("x/0", 2, None), ("x/1", 3, None)]
    assert all(use.template["spec"] == {} for use in uses)


def test_declared_pods_of_another_count_than_the_template_stand_alone() -> None:
    inner = thing("batch/v1", "Job", job_spec(parallelism=2))
    (use,) = pod_templates(wrapper({"generictemplate": inner, "custompodresources": [declared(5, cpu=1)]}), "it")
    assert (use.name, use.count, use.path, use.template["spec"]) == ("x", 5, None, {})


def component_wrapper(**component: t.Any) -> Object:
    """AppWrapper v1beta2 around one component."""
    return thing("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [component], "suspend": True})


def test_components_are_inferred_when_the_kind_is_known() -> None:
    obj = component_wrapper(
        template=thing("batch/v1", "Job", job_spec(parallelism=3)), podSets=[{"path": "template.spec.template"}]
    )
    (use,) = pod_templates(obj, "it")
    assert (use.count, use.path) == (3, ("spec", "components", 0, "template", "spec", "template"))


def test_components_of_unknown_kinds_use_their_pod_sets() -> None:
    inner = thing("example.com/v1", "Thing", {"parts": [{"template": template(1)}], "main": template(2)})
    sets = [{"replicas": 4, "path": "template.spec.parts[0].template"}, {"path": "template.spec.main"}]
    obj = component_wrapper(template=inner, podSets=sets)
    first, second = pod_templates(obj, "it")
    assert (first.name, first.count) == ("x/0", 4)
    assert first.path == ("spec", "components", 0, "template", "spec", "parts", 0, "template")
    assert (second.count, at(obj, second.path or ())) == (1, template(2))


@pytest.mark.parametrize("path", ["spec.main", "template..x", "template.spec.main[", "", "template.spec.other"])
def test_bad_paths_of_pod_sets_are_refused(path: str) -> None:
    obj = component_wrapper(template=thing("example.com/v1", "Thing", {"main": template()}), podSets=[{"path": path}])
    with pytest.raises(BadInput, match="components"):
        pod_templates(obj, "it")


def test_a_component_of_unknown_kind_needs_pod_sets() -> None:
    with pytest.raises(NeedsPodsets, match="Thing default/x in it: unknown kind Thing"):
        pod_templates(component_wrapper(template=thing("example.com/v1", "Thing", {})), "it")


def test_a_pod_set_path_into_something_else_is_refused() -> None:
    inner = thing("example.com/v1", "Thing", {"main": template()})
    obj = component_wrapper(template=inner, podSets=[{"path": "template.spec.main[0]"}])
    with pytest.raises(
        BadInput, match=r"spec\.components\[0\]\.template\.spec\.main: a list is needed, this is a dict"
    ):
        pod_templates(obj, "it")


PODLESS = [
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "PersistentVolumeClaim"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
    ("kueue.x-k8s.io/v1beta1", "Workload"),
]


@pytest.mark.parametrize(("api_version", "kind"), PODLESS)
def test_podless_kinds_give_nothing(api_version: str, kind: str) -> None:
    assert sizes(thing(api_version, kind, {})) == {}


@pytest.mark.parametrize(
    ("api_version", "kind", "cause"),
    [
        ("example.com/v1", "Thing", "unknown kind Thing of group example.com; declare podsets for it"),
        # Knative's Service makes pods, unlike the core one.
        (
            "serving.knative.dev/v1",
            "Service",
            "unknown kind Service of group serving.knative.dev; declare podsets for it",
        ),
        ("v1", "Thing", "unknown kind Thing; declare podsets for it"),
        ("apps/v1", "DaemonSet", "the size of a DaemonSet follows the nodes; declare podsets for it"),
    ],
)
def test_kinds_without_a_known_size_ask_for_podsets(api_version: str, kind: str, cause: str) -> None:
    with pytest.raises(NeedsPodsets) as caught:
        pod_templates(thing(api_version, kind, {"template": template()}), "Thing demo/x")
    assert (caught.value.target, caught.value.cause) == ("Thing demo/x", cause)


def without(obj: Object, *path: str | int) -> Object:
    """A copy that lacks the field at a path."""
    changed = copy.deepcopy(obj)
    del at(changed, path[:-1])[path[-1]]
    return changed


def changed(obj: Object, value: t.Any, *path: str | int) -> Object:
    """A copy with another value at a path."""
    result = copy.deepcopy(obj)
    at(result, path[:-1])[path[-1]] = value
    return result


JOB = thing("batch/v1", "Job", job_spec(parallelism=1))
CLUSTER = thing("ray.io/v1", "RayCluster", SEED)
TORCH = thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"template": template()}}})
JOBSET = thing(
    "jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "w", "template": {"spec": job_spec()}}]}
)
LWS = thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": template()}})


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (without(JOB, "kind"), "kind"),
        (without(JOB, "apiVersion"), "apiVersion"),
        (without(JOB, "metadata"), "metadata"),
        (without(JOB, "metadata", "name"), "metadata.name"),
        (without(JOB, "spec"), "spec.template"),
        (without(JOB, "spec", "template"), "spec.template"),
        (without(JOB, "spec", "template", "spec"), "spec.template.spec"),
        (without(JOB, "spec", "template", "spec", "containers"), "spec.template.spec.containers"),
        (changed(JOB, [], "spec", "template", "spec", "containers"), "spec.template.spec.containers"),
        (changed(JOB, ["main"], "spec", "template", "spec", "containers"), "spec.template.spec.containers[0]"),
        (changed(JOB, "text", "spec", "template"), "spec.template"),
        (changed(JOB, "text", "spec"), "spec"),
        (changed(JOB, 7, "kind"), "kind"),
        (changed(JOB, -1, "spec", "parallelism"), "spec.parallelism"),
        (changed(JOB, "2", "spec", "parallelism"), "spec.parallelism"),
        (changed(JOB, True, "spec", "parallelism"), "spec.parallelism"),
        (changed(JOB, 1.5, "spec", "parallelism"), "spec.parallelism"),
        (without(CLUSTER, "spec", "headGroupSpec"), "spec.headGroupSpec.template"),
        (without(CLUSTER, "spec", "workerGroupSpecs", 0, "groupName"), "spec.workerGroupSpecs[0].groupName"),
        (without(CLUSTER, "spec", "workerGroupSpecs", 0, "template"), "spec.workerGroupSpecs[0].template"),
        (changed(CLUSTER, {}, "spec", "workerGroupSpecs"), "spec.workerGroupSpecs"),
        (changed(CLUSTER, "yes", "spec", "enableInTreeAutoscaling"), "spec.enableInTreeAutoscaling"),
        (thing("ray.io/v1", "RayJob", {}), "spec.rayClusterSpec"),
        (thing("ray.io/v1", "RayJob", {"submissionMode": "Pigeon"}), "spec.submissionMode"),
        (thing("ray.io/v1", "RayService", {}), "spec.rayClusterConfig"),
        (changed(TORCH, {}, "spec", "pytorchReplicaSpecs"), "spec.pytorchReplicaSpecs"),
        (changed(TORCH, {"Boss": {}}, "spec", "pytorchReplicaSpecs"), "spec.pytorchReplicaSpecs.Boss"),
        (changed(TORCH, {"Worker": None}, "spec", "pytorchReplicaSpecs"), "spec.pytorchReplicaSpecs.Worker"),
        (
            thing("kubeflow.org/v1", "MPIJob", {"mpiReplicaSpecs": {"Worker": {"template": template()}}}),
            "spec.mpiReplicaSpecs.Launcher",
        ),
        (without(JOBSET, "spec", "replicatedJobs"), "spec.replicatedJobs"),
        (without(JOBSET, "spec", "replicatedJobs", 0, "name"), "spec.replicatedJobs[0].name"),
        (changed(LWS, 0, "spec", "leaderWorkerTemplate", "size"), "spec.leaderWorkerTemplate.size"),
        (wrapper({}), "spec.resources.GenericItems[0].generictemplate"),
        (thing("workload.codeflare.dev/v1beta1", "AppWrapper", {}), "spec.resources.GenericItems"),
        (thing("workload.codeflare.dev/v1beta2", "AppWrapper", {}), "spec.components"),
        ({"apiVersion": "v1", "kind": "List"}, "items"),
    ],
)
def test_missing_and_malformed_fields_are_named(obj: Object, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        pod_templates(obj, "Thing demo/x")
    assert caught.value.target == f"Thing demo/x: {field}"


def test_what_is_no_object_at_all_is_refused() -> None:
    with pytest.raises(BadInput, match="an object is a mapping, this is a str"):
        pod_templates(t.cast(t.Any, "kind: Job"), "object 0")


def test_a_generated_name_is_enough() -> None:
    obj = without(JOB, "metadata", "name")
    obj["metadata"]["generateName"] = "train-"
    assert sizes(obj) == {"train": 1}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (JOB, "Job here/x"),
        (thing("v1", "Pod", {}, namespace="there"), "Pod there/x"),
        ({"kind": "Pod", "metadata": {"generateName": "a-"}}, "Pod here/a-"),
        ({"kind": "Pod"}, "Pod 3"),
        ({"metadata": "?"}, "object 3"),
        ("text", "object 3"),
    ],
)
def test_objects_are_described_for_messages(obj: t.Any, text: str) -> None:
    assert describe_object(obj, "here", 3) == text


def test_paths_are_written_as_people_do() -> None:
    assert path_text(("spec", "parts", 0, "template")) == "spec.parts[0].template"
    assert path_text(()) == "the object"


def test_declared_pods_without_a_number_are_one() -> None:
    inner = thing("example.com/v1", "Thing", {})
    entry = {"requests": {"cpu": 1}}
    (use,) = pod_templates(wrapper({"generictemplate": inner, "custompodresources": [entry]}), "it")
    assert use.count == 1


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (job("j", 1), False),
        ({**job("j", 1), "spec": {"ttlSecondsAfterFinished": 0}}, True),
        ({**job("j", 1), "spec": {"ttlSecondsAfterFinished": 60, "runPolicy": "x"}}, True),
        ({**pytorch_job(), "spec": {"runPolicy": {"ttlSecondsAfterFinished": 60}}}, True),
        ({**pytorch_job(), "spec": {"runPolicy": {}}}, False),
        ({**job("j", 1), "spec": None}, False),
        ({**deployment(), "spec": {"ttlSecondsAfterFinished": 60}}, False),
    ],
)
def test_objects_that_end_and_have_a_time_to_live_remove_themselves(obj, expected):
    assert removes_itself(obj) is expected
