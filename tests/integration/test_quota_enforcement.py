# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role quota_tree for real: its rights, what the server denies where a tree is enforced, and what passes there.

Gangs are dispatched as it is meant to be: by the account of the role dispatcher, over all namespaces.
"""

from __future__ import annotations

import copy
import json
import pathlib
import subprocess
import time
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.modules import component, quota, quota_info
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.accounts import RBAC, account_kubeconfig, may
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.module_call import call_tasks
from ansible_collections.muster.kube.tests.support.play import Played
from ansible_collections.muster.kube.tests.support.role_course import Role, RoleCourse, changes, proxies_for
from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd

Object = dict[str, t.Any]
HOME, RED, BLUE = "enforce-home", "enforce-red", "enforce-blue"
POOL, TIGHT = "enforce", "enforce-tight"
GPU = "nvidia.com/gpu"
POLICIES = "admissionregistration.k8s.io/v1"
# The submitter of red; who may use another queue as well; who may make whatever they like in red and in blue.
ANN, UMA, EVE = "ann", "uma", "eve"
QUEUES = [
    {"name": "all"},
    {"name": "red", "parent": "all", "namespaces": [RED], "nominal": {GPU: 32}, "priority_cap": 0},
    {"name": "blue", "parent": "all", "selector": {"matchLabels": {"team": "blue"}}, "nominal": {GPU: 4}},
    {"name": "shared", "parent": "all", "nominal": {GPU: 4}},
    {"name": "rest", "parent": "all", "default": True, "nominal": {GPU: 1}},
]
SETTINGS = {
    "quota_tree_namespace": HOME,
    "quota_tree_trees": [{"queues": QUEUES, "enforce": "deny"}],
    "quota_tree_admins": [{"kind": "User", "name": "quinn"}],
    "quota_tree_viewers": [{"kind": "Group", "name": "onlookers"}],
    "quota_tree_users": [{"name": "helpers", "queues": ["shared"], "subjects": [{"kind": "User", "name": UMA}]}],
    # Here operators are processes with users of their own.
    "quota_tree_operators": ["kuberay", "training-operator"],
}
ROLES = pathlib.Path(__file__).resolve().parents[2] / "roles"
USUAL_KINDS = yaml.safe_load((ROLES / "dispatcher/defaults/main.yml").read_text(encoding="utf-8"))
MORE_KINDS = {"apiGroups": ["", "apps"], "resources": ["replicationcontrollers", "replicasets"]}
SUBMITTERS = [{"kind": "User", "name": name} for name in (ANN, UMA)]
RIGHTS = {
    "dispatcher_namespace": HOME,
    "dispatcher_namespaces": [{"name": RED, "submitters": SUBMITTERS}, {"name": BLUE, "submitters": SUBMITTERS}],
    "dispatcher_all_subjects": [{"kind": "ServiceAccount", "name": "muster-dispatch", "namespace": HOME}],
    "dispatcher_leases": {"resources": []},
    "dispatcher_workload_rules": [*USUAL_KINDS["dispatcher_workload_rules"], MORE_KINDS],
}
ROLE = Role("muster.kube.quota_tree", SETTINGS)
ANY = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "get", "list", "update", "patch", "delete"]}]
FORGED = {"muster.kube/gang": "0b4e1b5e-1111-2222-3333-444455556666"}
RECORDS = resource_path("v1", "configmaps", RED)
WRAPPERS = resource_path(cases.WRAPPER_API, "appwrappers", RED)


# Objects.


def template(
    *, gpu: int = 1, pool: str = POOL, name: str = "main", labels: t.Mapping[str, str] | None = None
) -> Object:
    """A pod of a pool with some GPUs."""
    made = cases.pod_template(pool, {"cpu": "100m", **({GPU: str(gpu)} if gpu else {})}, None)
    made["spec"]["containers"][0]["name"] = name
    return {"metadata": {"labels": {"app": "x", **(labels or {})}}, "spec": made["spec"]}


def thing(kind: str, name: str, **of_pods: t.Any) -> Object:
    """An object of a kind that makes pods like these; two of them if it is not a Pod."""
    api, made = SHAPES[kind](**of_pods)
    metadata = {**made.get("metadata", {}), "name": name, "namespace": RED}
    return {"apiVersion": api, "kind": kind, **made, "metadata": metadata}


def _replicated(api: str, selector: Object, **size: int) -> t.Callable[..., tuple[str, Object]]:
    def made(**of_pods: t.Any) -> tuple[str, Object]:
        pod = template(**of_pods)
        pod["spec"]["restartPolicy"] = "Always"
        return api, {"spec": {**size, "selector": copy.deepcopy(selector), "template": pod}}

    return made


def _stateful(**of_pods: t.Any) -> tuple[str, Object]:
    api, made = _replicated("apps/v1", SELECTOR, replicas=2)(**of_pods)
    made["spec"]["serviceName"] = "x"
    return api, made


def _job(**of_pods: t.Any) -> Object:
    return {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template(**of_pods)}


def _ray(**of_pods: t.Any) -> tuple[str, Object]:
    pod = template(**of_pods)
    pod["spec"].pop("restartPolicy")
    workers = {"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {}}
    head = {"rayStartParams": {}, "template": copy.deepcopy(pod)}
    spec = {"rayVersion": "2.46.0", "headGroupSpec": head, "workerGroupSpecs": [{**workers, "template": pod}]}
    return "ray.io/v1", {"spec": spec}


def _pytorch(**of_pods: t.Any) -> tuple[str, Object]:
    roles = {role: {"replicas": 1, "template": template(name="pytorch", **of_pods)} for role in ("Master", "Worker")}
    return "kubeflow.org/v1", {"spec": {"pytorchReplicaSpecs": roles}}


SELECTOR = {"matchLabels": {"app": "x"}}
SHAPES: dict[str, t.Callable[..., tuple[str, Object]]] = {
    "Pod": lambda **of_pods: ("v1", template(**of_pods)),
    "ReplicationController": _replicated("v1", {"app": "x"}, replicas=2),
    "ReplicaSet": _replicated("apps/v1", SELECTOR, replicas=2),
    "Deployment": _replicated("apps/v1", SELECTOR, replicas=2),
    "StatefulSet": _stateful,
    "DaemonSet": _replicated("apps/v1", SELECTOR),
    "Job": lambda **of_pods: ("batch/v1", {"spec": _job(**of_pods)}),
    "CronJob": lambda **of_pods: (
        "batch/v1",
        {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": _job(**of_pods)}}},
    ),
    "RayCluster": _ray,
    "PyTorchJob": _pytorch,
}
DIRECT = ("Pod", "CronJob")
# A CronJob of a gang makes its pods at its own time, and how many a DaemonSet has no gang can tell.
GANGS = ("Pod", "ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "Job", "RayCluster", "PyTorchJob")


def thing_in_gang(kind: str, **of_pods: t.Any) -> Object:
    """The same as a user writes it into a gang."""
    made = thing(kind, f"g-{kind.lower()}", labels={"app": kind.lower()}, **of_pods)
    selector = made.get("spec", {}).get("selector")
    if selector is not None:
        # Those with the same selector would adopt the pod of the gang that is a Pod.
        selector.get("matchLabels", selector)["app"] = kind.lower()
    del made["metadata"]["namespace"]
    return made


def record(name: str, *objects: Object, namespace: str = RED, user: str | None = None, **options: t.Any) -> Object:
    """A gang to be queued, a Job with one GPU unless objects are given."""
    work = objects or (cases.job(f"{name}-j", POOL, 1, **{"cpu": "100m", GPU: "1"}),)
    made = cases.gang_record(name, namespace, work, **options)
    if user is not None:
        made["metadata"]["annotations"] = {"muster.kube/user": user}
    return made


# The cluster, the plays, and people.


class Course(t.NamedTuple):
    """What a play gave, the requests of some of its tasks, and what modules answered that were called besides."""

    played: Played
    proxies: t.Mapping[str, ApiProxy]
    answers: t.Mapping[str, Object]


def filled_in(role: str, name: str, **variables: t.Any) -> tuple[str, Object]:
    """A template of a role, and the variables of a task that fills it in where the rest of the role is not needed."""
    files = [ROLES / role / part / "main.yml" for part in ("defaults", "vars")]
    usual = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    text = f"{{{{ lookup('ansible.builtin.template', '{ROLES / role / 'templates' / name}') }}}}"
    known = {key: value for part in usual for key, value in part.items()}
    return text, {**known, **variables}


def ensure_component(cluster: LiveCluster, name: str, **options: t.Any) -> Object:
    """Call the module component."""
    task = {"muster.kube.component": {"kubeconfig": cluster.kubeconfig, "name": name, **options}}
    return call_tasks(component, {"only": task})["only"]


@pytest.fixture(scope="module")
def cluster(operator_cluster: LiveCluster) -> t.Iterator[LiveCluster]:
    """The one with operators; two namespaces, nodes with GPUs, and somebody who may do much in the namespaces."""
    live = operator_cluster
    names = [f"{RED}-n", f"{TIGHT}-n"]
    live.add_nodes(
        [
            cases.kwok_node(names[0], POOL, cpu="32", **{GPU: "32"}),
            cases.kwok_node(names[1], TIGHT, cpu="32", **{GPU: "1"}),
        ]
    )
    for name in (RED, BLUE):
        live.namespace(name)
        meta = {"name": "maker", "namespace": name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": EVE}
        live.create({"apiVersion": RBAC, "kind": "Role", "metadata": meta, "rules": ANY})
        binding = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": meta}
        live.create({**binding, "roleRef": reference, "subjects": [subject]})
    patch(live.client, resource_path("v1", "namespaces", None, BLUE), {"metadata": {"labels": {"team": "blue"}}})
    yield live
    for name in (RED, BLUE):
        live.clear_namespace(name)
    live.remove_nodes(names)


@pytest.fixture(scope="module")
def installed(cluster: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The role applied in check mode, for real and again, beside the rights of the role dispatcher."""
    directory = tmp_path_factory.mktemp("installed")
    install_wrapper_crd(cluster.client)
    course = RoleCourse(ROLE, cluster, directory)
    rights, variables = filled_in("dispatcher", "objects.yml.j2", **RIGHTS)
    options = {"kubeconfig": cluster.kubeconfig, "name": "dispatcher", "definition": rights, "prune": False}
    course.tasks["rights"] = {"muster.kube.component": options, "vars": variables}
    warns = {"queues": QUEUES, "enforce": "warn"}
    mild, variables = filled_in("quota_tree", "policies.yml.j2", **SETTINGS, item=warns)
    course.tasks["mild"] = {"ansible.builtin.debug": {"msg": [mild]}, "vars": variables}
    with proxies_for(cluster, directory, "check", "again") as proxies:
        placeless = {"queues": [{"name": "alone"}], "tree": "placeless", "enforce": "warn"}
        course.apply_in_vain("placeless", quota_tree_trees=[placeless])
        course.apply("check", proxies["check"].kubeconfig, check=True)
        course.apply("made")
        course.apply("again", proxies["again"].kubeconfig)
        played = course.play()
    assert played["rights"]["changed"], played["rights"]
    answers = with_the_rights_of_the_role(cluster)
    eve = person(cluster, EVE)
    # Policies take a moment to be known.
    for place in (RED, BLUE):
        asked = {**thing("Pod", "probe"), "metadata": {"name": "probe", "namespace": place}}
        wait_until(f"the policies in {place}", lambda asked=asked: "only gangs get" in denial(cluster, eve, asked))
        wait_until(
            f"the policy of queues in {place}",
            lambda place=place: "is not that of" in denial(cluster, eve, record("p", namespace=place, queue="shared")),
        )
    return Course(played, proxies, answers)


def with_the_rights_of_the_role(cluster: LiveCluster) -> dict[str, Object]:
    """What modules answer to those who have them, and to somebody who has none."""
    common = {"kubeconfig": cluster.kubeconfig, "lease": {"namespace": HOME}, "tree": "default"}
    admin, submitter = {"impersonate_user": "quinn"}, {"impersonate_user": ANN}
    onlooker = {"impersonate_user": "vic", "impersonate_groups": ["onlookers"]}
    tasks = {
        "by_admin": {"muster.kube.quota": {**common, **admin, "queues": QUEUES[:-1]}},
        "by_admin_again": {"muster.kube.quota": {**common, **admin, "queues": QUEUES}},
    }
    questions = {
        "by_viewer": {"muster.kube.quota_info": {**common, **onlooker}},
        "by_submitter": {"muster.kube.quota_info": {**common, **submitter}},
    }
    return {**call_tasks(quota, tasks), **call_tasks(quota_info, questions)}


def person(cluster: LiveCluster, name: str) -> KubeClient:
    """Somebody's client."""
    return cluster.client.acting_as(name, ("system:authenticated",))


def denial(cluster: LiveCluster, client: KubeClient, obj: Object) -> str:
    """What the server says against creating an object; empty when it would. Nothing is created."""
    try:
        create(client, cluster.path(obj, named=False), obj, dry_run=True)
    except Forbidden as error:
        return error.message
    return ""


def refusal_of_change(client: KubeClient, path: str, **metadata: t.Any) -> str:
    """What the server says against a change of an object's metadata; empty when it would. Nothing is changed."""
    try:
        patch(client, path, {"metadata": metadata}, dry_run=True)
    except ApiError as error:
        return error.message
    return ""


# The role.


def test_check_mode_writes_nothing_and_foretells_what_is_made(installed: Course) -> None:
    assert_no_writes(installed.proxies["check"])
    assert changes(installed.played, "check") == changes(installed.played, "made") == 3


def test_a_second_run_writes_nothing(installed: Course) -> None:
    assert installed.proxies["again"].requests
    assert_no_writes(installed.proxies["again"])
    assert changes(installed.played, "again") == 0


def test_a_tree_without_any_namespace_cannot_be_enforced(installed: Course) -> None:
    assert "The quota tree placeless cannot be enforced" in installed.played["placeless"]


def test_the_server_finds_nothing_wrong_with_the_policies(cluster: LiveCluster, installed: Course) -> None:
    path = resource_path(POLICIES, "validatingadmissionpolicies")
    label = "muster.kube/component=quota-tree.default"

    def checked() -> list[Object]:
        found = list_objects(cluster.client, path, keep=lambda raw: raw, label_selector=label).items
        return found if all("typeChecking" in (item.get("status") or {}) for item in found) else []

    # It looks at the types of kinds that it knows, a moment later.
    found = wait_until("the policies to be looked at", checked)
    assert len(found) == 4
    warnings = {item["metadata"]["name"]: item["status"]["typeChecking"].get("expressionWarnings") for item in found}
    assert {name: told for name, told in warnings.items() if told and "workloads" not in name} == {}


@pytest.mark.parametrize(
    ("user", "verb", "resource", "group", "more", "allowed"),
    [
        ("quinn", "create", "configmaps", "", {"namespace": HOME}, True),
        ("quinn", "update", "configmaps", "", {"namespace": HOME, "name": "muster-quota-default"}, True),
        ("quinn", "delete", "configmaps", "", {"namespace": HOME, "name": "muster-quota-default"}, True),
        ("quinn", "use", "queues", "muster.kube", {"name": "blue"}, True),
        ("quinn", "list", "configmaps", "", {}, True),
        ("quinn", "update", "configmaps", "", {"namespace": RED}, False),
        ("quinn", "create", "pods", "", {"namespace": HOME}, False),
        ("quinn", "update", "leases", "coordination.k8s.io", {"namespace": HOME}, False),
        ("quinn", "update", "validatingadmissionpolicies", "admissionregistration.k8s.io", {}, False),
        ("group:onlookers", "get", "configmaps", "", {"namespace": HOME, "name": "muster-quota-default"}, True),
        ("group:onlookers", "get", "configmaps", "", {"namespace": HOME, "name": "muster-quota-status-default"}, True),
        ("group:onlookers", "get", "configmaps", "", {"namespace": HOME, "name": "muster-history"}, False),
        ("group:onlookers", "update", "configmaps", "", {"namespace": HOME, "name": "muster-quota-default"}, False),
        ("group:onlookers", "get", "configmaps", "", {"namespace": RED, "name": "muster-quota-default"}, False),
        ("group:onlookers", "use", "queues", "muster.kube", {"name": "blue"}, False),
        (UMA, "use", "queues", "muster.kube", {"name": "shared"}, True),
        (UMA, "use", "queues", "muster.kube", {"name": "blue"}, False),
        (UMA, "create", "configmaps", "", {"namespace": HOME}, False),
        (ANN, "use", "queues", "muster.kube", {"name": "shared"}, False),
        (ANN, "create", "configmaps", "", {"namespace": RED}, True),
        (ANN, "update", "configmaps", "", {"namespace": RED}, False),
    ],
)
def test_who_may_do_what(
    cluster: LiveCluster,
    installed: Course,
    user: str,
    verb: str,
    resource: str,
    group: str,
    more: dict[str, str],
    allowed: bool,
) -> None:
    assert may(cluster, user, verb, resource, group, **more) is allowed


def test_the_modules_work_with_these_rights(installed: Course) -> None:
    assert [installed.answers[name]["changed"] for name in ("by_admin", "by_admin_again")] == [True, True]
    (tree,) = installed.answers["by_viewer"]["trees"]
    assert {queue["name"] for queue in tree["queues"]} == {queue["name"] for queue in QUEUES}
    assert "cannot get resource" in installed.answers["by_submitter"]["msg"]


# What is denied.


@pytest.mark.parametrize("kind", SHAPES)
def test_nobody_makes_pods_with_gpus_around_the_queue(cluster: LiveCluster, installed: Course, kind: str) -> None:
    eve = person(cluster, EVE)
    message = denial(cluster, eve, thing(kind, "sly"))
    assert "only gangs get nvidia.com/gpu" in message
    assert "queue it with the module muster.kube.gang" in message
    for labels in (FORGED, {"muster.kube/queue": "blue"}):
        assert "set by dispatchers only" in denial(cluster, eve, thing(kind, "sly", gpu=0, labels=labels)), labels
    assert denial(cluster, eve, thing(kind, "honest", gpu=0)) == ""


def test_what_asks_for_a_gpu_in_other_ways_is_found_too(cluster: LiveCluster, installed: Course) -> None:
    eve = person(cluster, EVE)
    first = thing("Pod", "sly", gpu=0)
    first["spec"]["initContainers"] = [{"name": "i", "image": "none", "resources": {"limits": {"amd.com/gpu": "1"}}}]
    claims = thing("Pod", "sly", gpu=0)
    claims["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": "any"}]
    for sly in (first, claims):
        assert "only gangs get" in denial(cluster, eve, sly)
    none = thing("Pod", "honest", gpu=0)
    none["spec"]["containers"][0]["resources"]["limits"] = {GPU: "0"}
    assert denial(cluster, eve, none) == ""
    elsewhere = {**thing("Pod", "free"), "metadata": {"name": "free", "namespace": "default"}}
    assert denial(cluster, cluster.client, elsewhere) == ""


def test_the_account_of_the_dispatcher_is_nobody_elses(cluster: LiveCluster, installed: Course) -> None:
    eve = person(cluster, EVE)
    for kind in ("Pod", "Job"):
        sly = thing(kind, "sly", gpu=0)
        (sly["spec"] if kind == "Pod" else sly["spec"]["template"]["spec"])["serviceAccountName"] = "muster"
        assert "no pod runs as the account muster" in denial(cluster, eve, sly)
    notes = {"kubernetes.io/service-account.name": "muster"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": RED, "annotations": notes}}
    assert "has no tokens" in denial(cluster, eve, {**secret, "type": "kubernetes.io/service-account-token"})
    assert denial(cluster, eve, {**secret, "type": "Opaque"}) == ""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {}}
    with pytest.raises(Forbidden, match="has no tokens"):
        create(eve, resource_path("v1", "serviceaccounts", RED, "muster", "token"), request)


def test_a_queue_needs_the_right_to_use_it(cluster: LiveCluster, installed: Course) -> None:
    ann, uma, quinn = (person(cluster, name) for name in (ANN, UMA, "quinn"))
    for queue in (None, "red", "rest"):
        assert denial(cluster, ann, record("mine", queue=queue)) == "", queue
    for queue in ("blue", "shared"):
        message = denial(cluster, ann, record("theirs", queue=queue))
        assert f"queue {queue} is not that of namespace {RED}, and ann may not use it" in message
    assert denial(cluster, uma, record("mine", queue="shared")) == ""
    assert "may not use it" in denial(cluster, uma, record("theirs", queue="blue"))
    assert "cannot create resource" in denial(cluster, quinn, record("none", queue="blue"))
    # The tree's own label says the same, and a namespace that a selector holds has its queue too.
    assert "may not use it" in denial(cluster, ann, record("theirs", queue="red", labels={"default": "blue"}))
    assert denial(cluster, ann, record("mine", namespace=BLUE, queue="blue")) == ""
    assert f"queue red is not that of namespace {BLUE}" in denial(
        cluster, ann, record("x", namespace=BLUE, queue="red")
    )
    wrapper = cases.app_wrapper("w", RED, [cases.job("w-j", POOL, 1)], managed=False)
    assert denial(cluster, ann, wrapper) == ""
    wrapper["metadata"]["labels"] = {"muster.kube/queue": "shared"}
    assert "may not use it" in denial(cluster, ann, wrapper)
    assert denial(cluster, uma, wrapper) == ""


def test_records_are_forged_in_vain(cluster: LiveCluster, installed: Course) -> None:
    ann, eve = person(cluster, ANN), person(cluster, EVE)
    assert "and you are ann" in denial(cluster, ann, record("sly", user="uma"))
    assert denial(cluster, ann, record("mine", user=ANN)) == ""
    wrapper = cases.app_wrapper("w", RED, [cases.job("w-j", POOL, 1)])
    for sly in (record("sly"), wrapper):
        sly["metadata"]["annotations"] = {"muster.kube/state": '{"phase":"running"}'}
        assert "written by dispatchers only" in denial(cluster, ann, sly)
    for labels in ({"muster.kube/phase": "complete"}, {"muster.kube/ticket": "true"}, FORGED):
        sly = record("sly")
        sly["metadata"]["labels"].update(labels)
        assert "written by dispatchers only" in denial(cluster, ann, sly)
    ticket = {**cases.config_map("sly"), "metadata": {"name": "sly", "namespace": RED}}
    assert denial(cluster, eve, ticket) == ""
    ticket["metadata"]["labels"] = {"muster.kube/ticket": "true", **FORGED}
    assert "written by dispatchers only" in denial(cluster, eve, ticket)


@pytest.fixture(scope="module")
def nothing(cluster: LiveCluster, installed: Course) -> dict[str, str]:
    """What came of objects that were there before, or that an operator made: the events of their controllers."""
    operator = cluster.client.acting_as("kuberay", ("system:masters",))
    kinds = [kind for kind in SHAPES if kind not in (*DIRECT, "RayCluster", "PyTorchJob")]
    for kind in kinds:
        made = thing(kind, f"old-{kind.lower()}", labels={"app": kind.lower()})
        if kind != "Job":
            selector = made["spec"]["selector"]
            selector.get("matchLabels", selector)["app"] = kind.lower()
        create(operator, cluster.path(made, named=False), made)

    def told() -> dict[str, str]:
        path = resource_path("v1", "events", RED)
        events = list_objects(cluster.client, path, keep=lambda raw: raw, field_selector="reason=FailedCreate").items
        return {item["involvedObject"]["kind"]: item["message"] for item in events}

    return wait_until(
        "controllers to be denied", lambda: found if set(kinds) - {"Deployment"} <= set(found := told()) else None
    )


def test_what_was_there_before_comes_to_nothing(cluster: LiveCluster, nothing: dict[str, str]) -> None:
    assert {kind for kind, message in nothing.items() if "only gangs get" in message} >= {
        "ReplicationController",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "Job",
    }
    assert [pod["metadata"]["name"] for pod in cluster.pods(RED) if pod["metadata"]["name"].startswith("old-")] == []


# What passes.


@pytest.fixture(scope="module")
def dispatched(
    cluster: LiveCluster, installed: Course, nothing: object, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Record]:
    """Gangs of each kind queued by a submitter and started by the account of the dispatcher."""
    ann, uma, eve = (person(cluster, name) for name in (ANN, UMA, EVE))
    one = {"cpu": "100m", GPU: "1"}
    starting = [create(ann, RECORDS, record(kind.lower(), thing_in_gang(kind), user=ANN)) for kind in GANGS]
    starting.append(create(uma, RECORDS, record("helped", queue="shared", user=UMA)))
    starting.append(create(ann, RECORDS, record("plain", cases.job("plain-j", TIGHT, 1, **one))))
    wrapped = cases.app_wrapper("wrapped", RED, [cases.job("wrapped-j", POOL, 1, **one)], managed=False)
    starting.append(create(ann, WRAPPERS, wrapped))
    pushy = record("pushy", cases.job("pushy-j", TIGHT, 1, **one), priority=2_000_000_000)
    # Times of the server have whole seconds.
    pushy["metadata"]["annotations"] = {"muster.kube/submitted": time_text(time.time() + 5)}
    create(eve, RECORDS, pushy)
    liar = record("liar", queue="shared")
    del liar["metadata"]["labels"]["muster.kube/queue"]
    create(ann, RECORDS, liar)
    auth = {"kubeconfig": account_kubeconfig(cluster, HOME, "muster-dispatch", tmp_path_factory.mktemp("account"))}
    options = DispatchOptions(lease=LeaseOptions(namespace=HOME, seconds=5.0), lease_wait=60.0, duration=90.0)
    uids = [item["metadata"]["uid"] for item in starting]

    def all_run(phases: t.Mapping[str, str]) -> bool:
        return all(phases.get(uid) == "running" for uid in uids)

    run_dispatch(connect(auth), connect(auth), options, lambda text: None, until=all_run)
    found = list_objects(cluster.client, RECORDS, keep=record_from_api, label_selector="muster.kube/record").items
    found += list_objects(cluster.client, WRAPPERS, keep=record_from_api).items
    return {item.name: item for item in found}


@pytest.mark.parametrize("kind", GANGS)
def test_gangs_of_each_kind_get_their_pods(cluster: LiveCluster, dispatched: dict[str, Record], kind: str) -> None:
    gang = dispatched[kind.lower()]
    assert gang.phase == "running", gang.why
    pods = cluster.pods(RED, f"muster.kube/gang={gang.uid}")
    assert len(pods) == (1 if kind == "Pod" else 2)
    assert {pod["spec"]["containers"][0]["resources"]["limits"][GPU] for pod in pods} == {"1"}


@pytest.mark.parametrize(("name", "queue"), [("helped", "shared"), ("wrapped", "red")])
def test_who_may_use_a_queue_is_charged_there(dispatched: dict[str, Record], name: str, queue: str) -> None:
    gang = dispatched[name]
    assert (gang.phase, gang.state is not None) == ("running", True), gang.why
    assert [item.queue for item in (gang.state.charged if gang.state else ())] == [queue]


def test_a_forged_priority_gets_nowhere(dispatched: dict[str, Record]) -> None:
    assert (dispatched["plain"].phase, dispatched["pushy"].phase) == ("running", "queued")


def test_a_text_that_names_another_queue_than_the_label_is_refused(dispatched: dict[str, Record]) -> None:
    liar = dispatched["liar"]
    assert liar.phase == "failed"
    assert "the label names no queue, and the gang itself queue shared" in liar.why[1]


def test_what_was_started_is_changed_by_nobody_else(cluster: LiveCluster, dispatched: dict[str, Record]) -> None:
    eve = person(cluster, EVE)
    gang = dispatched["deployment"]
    deployment = resource_path("apps/v1", "deployments", RED, "g-deployment")
    path = resource_path("v1", "configmaps", RED, "deployment")
    assert "set by dispatchers only" in refusal_of_change(eve, deployment, labels={"muster.kube/gang": None})
    assert refusal_of_change(eve, deployment, labels={"mine": "yes"}) == ""
    with pytest.raises(Forbidden, match="changed through its gang"):
        patch(eve, deployment, {"spec": {"replicas": 9}}, dry_run=True)
    (pod, _other) = cluster.pods(RED, f"muster.kube/gang={gang.uid}")
    own = resource_path("v1", "pods", RED, pod["metadata"]["name"])
    assert "set by dispatchers only" in refusal_of_change(eve, own, labels={"muster.kube/queue": "blue"})
    state = {"annotations": {"muster.kube/state": None}}
    assert "written by dispatchers only" in refusal_of_change(eve, path, **state)
    assert "written by dispatchers only" in refusal_of_change(eve, path, labels={"muster.kube/phase": "complete"})
    assert "stays as it is" in refusal_of_change(eve, path, labels={"muster.kube/record": None})
    assert "and you are eve" in refusal_of_change(eve, path, annotations={"muster.kube/user": "uma"})
    assert "and you are eve" in refusal_of_change(eve, path, annotations={"muster.kube/user": None})
    assert "may not use it" in refusal_of_change(eve, path, labels={"muster.kube/queue": "blue"})
    assert refusal_of_change(eve, path, annotations={"mine": "yes"}) == ""
    (ticket,) = list_objects(
        cluster.client,
        RECORDS,
        keep=lambda raw: raw["metadata"]["name"],
        label_selector=f"muster.kube/ticket,muster.kube/gang={gang.uid}",
    ).items
    place = resource_path("v1", "configmaps", RED, ticket)
    assert "written by dispatchers only" in refusal_of_change(eve, place, labels={"muster.kube/ticket": None})


# The end.


@pytest.fixture(scope="module")
def warned(cluster: LiveCluster, installed: Course, dispatched: object) -> subprocess.CompletedProcess[str]:
    """What is told to somebody who makes a pod around the queue while the tree is enforced by warnings."""
    mild = ensure_component(cluster, "quota-tree.default", definition=installed.played["mild"]["msg"])
    assert mild["changed"]
    kubectl = [cluster.kubectl, "--kubeconfig", cluster.kubeconfig]
    command = [*kubectl, "create", "--as", EVE, "--dry-run=server", "-f", "-"]
    text = json.dumps(thing("Pod", "sly"))

    def told() -> subprocess.CompletedProcess[str] | None:
        ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return ended if "Warning: " in ended.stderr else None

    return wait_until("the warning", told)


@pytest.fixture(scope="module")
def ended(cluster: LiveCluster, warned: object, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The tree is not enforced any more, and goes with everything else when its gangs are gone."""
    directory = tmp_path_factory.mktemp("ended")
    course = RoleCourse(ROLE, cluster, directory)
    # As YAML reads a bare off.
    off = {"quota_tree_trees": [{"queues": QUEUES, "enforce": False}]}
    kubectl = f"{cluster.kubectl} --kubeconfig {cluster.kubeconfig}"
    policies = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    with proxies_for(cluster, directory, "off_again") as proxies:
        course.apply_in_vain("in_use", quota_tree_state="absent")
        course.apply("off", **off)
        course.apply("off_again", proxies["off_again"].kubeconfig, **off)
        asked = f"{kubectl} get {policies} -o name -l app.kubernetes.io/part-of=muster.kube"
        gangs_end = f"{kubectl} delete configmaps,appwrappers -n {RED} -l muster.kube/phase -o name >&2"
        course.tasks["policies_left"] = {"ansible.builtin.command": {"argv": ["sh", "-ec", f"{asked}; {gangs_end}"]}}
        course.apply("gone", quota_tree_state="absent")
        played = course.play()
    rights_gone = ensure_component(cluster, "dispatcher", state="absent", wait=False)
    return Course(played, proxies, {"rights_gone": rights_gone})


def test_with_warn_it_is_told_and_made(warned: subprocess.CompletedProcess[str]) -> None:
    assert "only gangs get nvidia.com/gpu" in warned.stderr
    assert (warned.returncode, warned.stdout) == (0, "pod/sly created (server dry run)\n")


def test_a_tree_in_use_is_not_removed(ended: Course) -> None:
    assert ended.played["in_use"]
    assert "started gangs are charged to it" in ended.played.output


def test_switching_off_removes_every_policy_and_only_once(ended: Course) -> None:
    assert ended.played["policies_left"]["stdout"] == ""
    assert changes(ended.played, "off") == 1
    assert changes(ended.played, "off_again") == 0
    assert_no_writes(ended.proxies["off_again"])


def test_everything_goes_in_the_end(cluster: LiveCluster, ended: Course) -> None:
    assert changes(ended.played, "gone") == 2
    kinds = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    left = [
        name
        for plural in kinds
        for name in list_objects(
            cluster.client, resource_path(RBAC, plural), keep=lambda raw: raw["metadata"]["name"]
        ).items
    ]
    assert [name for name in left if "muster-quota" in name] == []
    assert not ended.answers["rights_gone"]["failed"]
    home = get_object(cluster.client, resource_path("v1", "namespaces", None, HOME))
    assert home is None or home["metadata"]["deletionTimestamp"]
