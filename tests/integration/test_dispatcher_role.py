# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role dispatcher for real: its CRD, its rights, what it leaves alone, and that a second run writes nothing."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import NodeGroup
from ansible_collections.muster.kube.tests.support.accounts import may
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.play import Played
from ansible_collections.muster.kube.tests.support.role_course import Role, RoleCourse, changes, part_of, proxies_for
from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster
from ansible_collections.muster.kube.tests.support.wrapper_crd import (
    CRD_PATH,
    WRAPPER_API,
    install_wrapper_crd,
    read_wrapper_crd,
)

Object = dict[str, t.Any]
SETTINGS = {
    "dispatcher_namespaces": [
        {
            "name": "team",
            "submitters": [{"kind": "User", "name": "sue"}],
            "viewers": [{"kind": "Group", "name": "onlookers"}],
        }
    ],
    "dispatcher_subjects": [{"kind": "User", "name": "awx"}],
}
ROLE = Role("muster.kube.dispatcher", SETTINGS, ("dispatcher_store", "dispatcher_store_reason"))
DISPATCHER = "system:serviceaccount:muster-system:muster-dispatch"
ACCOUNT = "system:serviceaccount:team:muster"


@pytest.fixture(scope="module")
def own() -> t.Iterator[LiveCluster]:
    """A cluster for these tests alone: a CRD is for the whole cluster, and here it comes and goes."""
    with running_cluster(f"role-{os.getpid()}") as running:
        running.namespace("team")
        yield running


def written(proxy: ApiProxy) -> list[tuple[str, str]]:
    """The writes that went through a proxy."""
    return [(request.method, request.path) for request in proxy.writes]


@dataclasses.dataclass(frozen=True)
class Installation:
    """What the play that installs everything gave."""

    played: Played
    proxies: dict[str, ApiProxy]


SUBMIT = resource_path("rbac.authorization.k8s.io/v1", "rolebindings", "team", "muster-submit")
EVE = {"subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}]}


@pytest.fixture(scope="module")
def installation(own: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The role refused, in check mode, for real, again, and after somebody has changed what it made."""
    directory = tmp_path_factory.mktemp("installation")
    course = RoleCourse(ROLE, own, directory)
    with proxies_for(own, directory, "check", "again", "repair") as proxies:
        course.apply_in_vain("nowhere", dispatcher_namespaces=[{"name": "nowhere"}])
        course.apply("check", proxies["check"].kubeconfig, check=True)
        course.kubectl("crd_after_check", "get", "crds", "-o", "name")
        course.apply("install")
        course.apply("again", proxies["again"].kubeconfig)
        course.kubectl("changed", "patch", "rolebinding", "muster-submit", "-n", "team", "-p", json.dumps(EVE))
        course.kubectl(
            "subjects", "get", "rolebinding", "muster-submit", "-n", "team", "-o", "jsonpath={.subjects[*].name}"
        )
        course.apply("repair", proxies["repair"].kubeconfig)
        return Installation(course.play(), proxies)


@pytest.fixture(scope="module")
def installed(own: LiveCluster, installation: Installation) -> LiveCluster:
    """The cluster after the role."""
    assert installation.played["install"]["msg"][0] == "appwrapper"
    return own


def allowed(cluster: LiveCluster, user: str, verb: str, resource: str, group: str = "", **more: str) -> bool:
    """Whether the API server lets a user do it, in the namespace team unless told otherwise."""
    return may(cluster, user, verb, resource, group, **{"namespace": "team", **more})


def kubectl(cluster: LiveCluster, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """One kubectl."""
    command = [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def ray_wrapper(name: str) -> Object:
    """An AppWrapper in the shape people wrote for MCAD: one RayCluster with its pods declared."""
    resources = {"cpu": 1, "memory": "2G", "nvidia.com/gpu": 0}
    container = {"name": "ray", "image": "none", "resources": {"limits": {"cpu": 1, "memory": "2G"}}}
    template = {"spec": {"containers": [container]}}
    worker = {"groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {}}
    ray = {
        "apiVersion": "ray.io/v1alpha1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": {"controller-tools.k8s.io": "1.0"}},
        "spec": {
            "rayVersion": "2.5.0",
            "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": template},
            "workerGroupSpecs": [{**worker, "template": template}],
        },
    }
    pods = [{"replicas": 1, "requests": dict(resources), "limits": dict(resources)}]
    item = {"replicas": 1, "custompodresources": pods, "generictemplate": ray}
    return {
        "apiVersion": WRAPPER_API,
        "kind": "AppWrapper",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"resources": {"GenericItems": [item]}},
    }


def test_a_namespace_that_does_not_exist_is_named(installation):
    assert "No such namespace: nowhere" in installation.played["nowhere"]


def test_check_mode_tells_the_changes_and_writes_nothing(installation):
    assert_no_writes(installation.proxies["check"])
    assert changes(installation.played, "check") == 2
    assert installation.played["check"]["msg"][0] == "appwrapper"
    assert "appwrapper" not in installation.played["crd_after_check"]["stdout"]


def test_a_second_run_changes_and_writes_nothing(installation):
    assert installation.proxies["again"].requests
    assert_no_writes(installation.proxies["again"])
    assert changes(installation.played, "again") == 0
    assert installation.played["again"]["msg"][0] == "appwrapper"


def test_what_was_changed_by_others_is_put_right_and_nothing_else_is_written(installed, installation):
    assert installation.played["subjects"]["stdout"] == "eve"
    assert written(installation.proxies["repair"]) == [("PATCH", SUBMIT)]
    assert [subject["name"] for subject in get_object(installed.client, SUBMIT)["subjects"]] == ["sue"]


def test_every_object_carries_our_labels(installed):
    crd = get_object(installed.client, CRD_PATH)
    assert crd["metadata"]["labels"] == read_wrapper_crd()["metadata"]["labels"]
    for api, plural, names in [
        ("v1", "namespaces", {"muster-system"}),
        ("v1", "serviceaccounts", {"muster-dispatch", "muster"}),
        ("rbac.authorization.k8s.io/v1", "clusterroles", {"muster-submit", "muster-dispatch", "muster-view"}),
        ("rbac.authorization.k8s.io/v1", "clusterrolebindings", {"muster-dispatch"}),
        ("rbac.authorization.k8s.io/v1", "roles", {"muster-dispatch-lease", "muster"}),
        (
            "rbac.authorization.k8s.io/v1",
            "rolebindings",
            {"muster-dispatch-lease", "muster", "muster-submit", "muster-view"},
        ),
        ("flowcontrol.apiserver.k8s.io/v1", "flowschemas", {"muster-dispatch", "muster-dispatch-work"}),
        ("flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations", {"muster-dispatch-work"}),
    ]:
        selector = "muster.kube/managed=true,app.kubernetes.io/part-of=muster.kube"
        path = resource_path(api, plural)
        found = list_objects(installed.client, path, keep=lambda obj: obj["metadata"]["name"], label_selector=selector)
        assert set(found.items) == names


@pytest.mark.parametrize("name", ["muster-dispatch", "muster-dispatch-work"])
def test_flow_schemas_point_to_levels_that_exist(installed, name):
    path = resource_path("flowcontrol.apiserver.k8s.io/v1", "flowschemas", None, name)
    dangling = wait_until(
        "the server to look at the FlowSchema",
        lambda: [
            item["status"]
            for item in (get_object(installed.client, path).get("status") or {}).get("conditions") or ()
            if item["type"] == "Dangling"
        ],
    )
    assert dangling == ["False"]


@pytest.mark.parametrize(
    ("user", "request_of", "schema"),
    [
        (DISPATCHER, ("leases", "-n", "muster-system"), "muster-dispatch-work"),
        (DISPATCHER, ("lease", "dispatch", "-n", "muster-system"), "muster-dispatch"),
        (DISPATCHER, ("nodes",), "muster-dispatch-work"),
        (ACCOUNT, ("jobs", "-n", "team"), "muster-dispatch-work"),
    ],
)
def test_the_lease_is_protected_and_all_else_is_limited(installed, user, request_of, schema):
    """Each answer tells which schema its request fell under; impersonated accounts count as themselves."""
    path = resource_path("flowcontrol.apiserver.k8s.io/v1", "flowschemas", None, schema)
    uid = get_object(installed.client, path)["metadata"]["uid"]

    def falls_under() -> bool:
        told = kubectl(installed, "get", *request_of, "--as", user, "-v=8").stderr
        return f"x-kubernetes-pf-flowschema-uid: {uid}" in told.lower()

    wait_until(f"the server to know {schema}", falls_under)


def test_a_wrapper_written_for_mcad_is_taken_as_it_is(installed):
    made = kubectl(installed, "create", "-f", "-", text=yaml.safe_dump(ray_wrapper("ray")))
    assert made.returncode == 0, made.stderr
    path = resource_path(WRAPPER_API, "appwrappers", "team", "ray")
    live = get_object(installed.client, path)
    assert live["spec"] == ray_wrapper("ray")["spec"]
    status = {"state": "Running", "queuejobstate": "Dispatched", "canrun": True, "running": 2, "numberOfRequeueings": 0}
    large = {"totalmemory": 4_000_000_000_000, "somethingNew": {"kept": "yes"}}
    patch(installed.client, f"{path}/status", {"status": {**status, **large}}, patch_type="merge")
    assert get_object(installed.client, path)["status"] == {**status, **large}
    shown = kubectl(installed, "get", "aw", "-n", "team").stdout.split("\n")
    titles = ("NAME", "STATE", "QUEUE STATE", "CAN RUN", "RUNNING PODS", "REQUEUES", "AGE")
    assert re.fullmatch(r"\s+".join(titles), shown[0].strip())
    assert shown[1].split()[:6] == ["ray", "Running", "Dispatched", "true", "2", "0"]
    delete(installed.client, path)


def test_the_defaults_of_requeuing_hold_only_where_it_is_given(installed):
    bare, given = ray_wrapper("bare"), ray_wrapper("given")
    given["spec"]["schedulingSpec"] = {"minAvailable": 2, "requeuing": {"maxNumRequeuings": 3}}
    installed.create(bare, given)
    paths = [resource_path(WRAPPER_API, "appwrappers", "team", name) for name in ("bare", "given")]
    assert "schedulingSpec" not in get_object(installed.client, paths[0])["spec"]
    requeuing = get_object(installed.client, paths[1])["spec"]["schedulingSpec"]["requeuing"]
    assert (requeuing["timeInSeconds"], requeuing["growthType"]) == (300, "exponential")
    assert requeuing["maxNumRequeuings"] == 3
    for path in paths:
        delete(installed.client, path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("resources", "GenericItems", 0), "text", "must be of type object"),
        (("resources", "GenericItems", 0, "generictemplate"), {"spec": {}}, "apiVersion"),
        (("resources", "GenericItems", 0, "custompodresources", 0, "requests", "cpu"), "one", "should match"),
        (("resources", "GenericItems", 0, "custompodresources", 0, "replicas"), "1", "must be of type integer"),
        (("resources",), None, "spec.resources: Required value"),
    ],
)
def test_a_malformed_wrapper_is_refused(installed, place, value, message):
    wrapper = ray_wrapper("bad")
    holder: t.Any = wrapper["spec"]
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with pytest.raises(ApiError, match=message):
        installed.create(wrapper)


def test_a_submitter_may_submit_and_nothing_more(installed):
    for group, resource in (("", "configmaps"), ("workload.codeflare.dev", "appwrappers")):
        for verb in ("create", "get", "list", "watch", "delete"):
            assert allowed(installed, "sue", verb, resource, group), f"{verb} {resource}"
        for verb in ("update", "patch"):
            assert not allowed(installed, "sue", verb, resource, group), f"{verb} {resource}"
        assert not allowed(installed, "sue", "create", resource, group, namespace="default")
    assert not allowed(installed, "sue", "update", "appwrappers", "workload.codeflare.dev", subresource="status")
    assert not allowed(installed, "sue", "create", "rolebindings", "rbac.authorization.k8s.io")
    assert not allowed(installed, "sue", "create", "pods")
    assert not allowed(installed, "sue", "impersonate", "serviceaccounts", name="muster")
    for namespace in ("team", "muster-system"):
        assert not allowed(installed, "sue", "create", "leases", "coordination.k8s.io", namespace=namespace)


def test_a_viewer_may_look(installed):
    for group, resource in (("", "configmaps"), ("", "events"), ("workload.codeflare.dev", "appwrappers")):
        assert allowed(installed, "group:onlookers", "list", resource, group)
        assert not allowed(installed, "group:onlookers", "create", resource, group)
    assert not allowed(installed, "group:onlookers", "get", "secrets")


def test_the_account_of_a_namespace_may_start_workloads_there_and_nothing_more(installed):
    kinds = (("batch", "jobs"), ("ray.io", "rayclusters"), ("kubeflow.org", "pytorchjobs"), ("", "pods"))
    for group, resource in kinds:
        for verb in ("create", "delete"):
            assert allowed(installed, ACCOUNT, verb, resource, group), f"{verb} {resource}"
            assert not allowed(installed, ACCOUNT, verb, resource, group, namespace="default")
    for resource in ("rolebindings", "roles"):
        assert not allowed(installed, ACCOUNT, "create", resource, "rbac.authorization.k8s.io")
    assert not allowed(installed, ACCOUNT, "create", "serviceaccounts")
    assert not allowed(installed, ACCOUNT, "get", "secrets")
    assert not allowed(installed, ACCOUNT, "create", "leases", "coordination.k8s.io")


RESIZED = (
    ("batch", "jobs"),
    ("kubeflow.org", "pytorchjobs"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
)
NEVER_RESIZED = (
    ("", "configmaps"),
    ("", "pods"),
    ("", "services"),
    ("apps", "deployments"),
    ("jobset.x-k8s.io", "jobsets"),
    ("ray.io", "rayjobs"),
    ("trainer.kubeflow.org", "trainjobs"),
)


@pytest.mark.parametrize(("group", "resource"), RESIZED)
def test_elastic_kinds_are_patched_by_the_account_of_their_namespace_alone(installed, group, resource):
    assert allowed(installed, ACCOUNT, "patch", resource, group)
    assert not allowed(installed, ACCOUNT, "patch", resource, group, namespace="default")
    for verb in ("update", "deletecollection"):
        assert not allowed(installed, ACCOUNT, verb, resource, group), verb
    for user in (DISPATCHER, "awx", "sue", "group:onlookers", "system:serviceaccount:team:default"):
        for verb in ("patch", "update"):
            assert not allowed(installed, user, verb, resource, group), (user, verb)


def test_no_other_kinds_are_patched(installed):
    for group, resource in NEVER_RESIZED:
        assert not allowed(installed, ACCOUNT, "patch", resource, group), resource
    for group, resource in RESIZED:
        for part in ("status", "scale"):
            assert not allowed(installed, ACCOUNT, "patch", resource, group, subresource=part), (resource, part)


@pytest.mark.parametrize("user", [DISPATCHER, "awx"])
def test_the_dispatcher_may_act_only_through_the_accounts(installed, user):
    assert allowed(installed, user, "impersonate", "serviceaccounts", name="muster")
    assert allowed(installed, user, "impersonate", "serviceaccounts", name="muster", namespace="default")
    for name in ("default", "muster-dispatch", ""):
        assert not allowed(installed, user, "impersonate", "serviceaccounts", name=name), name
    assert not allowed(installed, user, "impersonate", "users")
    assert not allowed(installed, user, "impersonate", "groups")
    assert not allowed(installed, user, "create", "jobs", "batch")
    assert not allowed(installed, user, "delete", "pods")
    assert not allowed(installed, user, "create", "rolebindings", "rbac.authorization.k8s.io")
    assert allowed(installed, user, "update", "leases", "coordination.k8s.io", namespace="muster-system")
    assert not allowed(installed, user, "update", "leases", "coordination.k8s.io", namespace="kube-system")
    assert allowed(installed, user, "update", "appwrappers", "workload.codeflare.dev", subresource="status")


def test_the_dispatcher_may_read_all_a_decision_needs(installed):
    core = ("nodes", "pods", "namespaces", "resourcequotas", "limitranges", "persistentvolumeclaims")
    others = [
        ("", "persistentvolumes"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "csinodes"),
        ("node.k8s.io", "runtimeclasses"),
        ("ray.io", "rayclusters"),
    ]
    for group, resource in [*(("", name) for name in core), *others]:
        for verb in ("list", "watch"):
            assert allowed(installed, DISPATCHER, verb, resource, group, namespace=""), (verb, resource)


def test_impersonation_works_for_the_account_and_for_nobody_else(installed):
    """Not by a review but by doing it: the dispatcher's token, acting as others."""
    token = kubectl(installed, "create", "token", "muster-dispatch", "-n", "muster-system").stdout.strip()
    (entry,) = yaml.safe_load(pathlib.Path(installed.kubeconfig).read_text(encoding="utf-8"))["clusters"]
    server = ["--kubeconfig=/dev/null", f"--server={entry['cluster']['server']}", "--insecure-skip-tls-verify"]
    acting = [installed.kubectl, *server, f"--token={token}", "-n", "team"]
    made = ["create", "configmap", "made", "--dry-run=server"]
    ended = {
        user: subprocess.run(
            [*acting, f"--as={user}", *made], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        for user in (ACCOUNT, "system:serviceaccount:team:default", "system:admin")
    }
    assert ended[ACCOUNT].returncode == 0, ended[ACCOUNT].stderr
    for user in ("system:serviceaccount:team:default", "system:admin"):
        assert "cannot impersonate" in ended[user].stderr


def foreign_crd(*versions: str) -> Object:
    """An AppWrapper definition of somebody else."""
    crd = copy.deepcopy(read_wrapper_crd())
    del crd["metadata"]["labels"]
    entry = {
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "served": True,
    }
    crd["spec"]["versions"] = [{**entry, "name": name, "storage": name == versions[0]} for name in versions]
    return crd


FLOW_OBJECTS = (
    ("flowschemas", "muster-dispatch"),
    ("flowschemas", "muster-dispatch-work"),
    ("prioritylevelconfigurations", "muster-dispatch-work"),
)
FOREIGN = {"one": ("v1beta1",), "two": ("v1beta2", "v1beta1")}
DEFINITION = ("crd", "appwrappers.workload.codeflare.dev")


def remove_and_find_foreign(course: RoleCourse, proxies: dict[str, ApiProxy]) -> None:
    """The role removes what it made, is applied beside definitions of others, and in a namespace of others."""
    gone = {"dispatcher_state": "absent"}
    course.kubectl("wrapped", "create", "-f", "-", text=yaml.safe_dump(ray_wrapper("kept")))
    course.apply("first_removal", **gone)
    course.kubectl("left", "get", "aw,serviceaccounts", "-n", "team", "-o", "name")
    course.kubectl("namespaces_left", "get", "namespaces", "-o", "name")
    course.kubectl("unwrapped", "delete", "aw", "kept", "-n", "team")
    course.apply("foreseen_removal", check=True, **gone)
    course.apply("second_removal", **gone)
    course.kubectl("definitions_left", "get", "crds", "-o", "name")
    for name, versions in FOREIGN.items():
        course.kubectl(f"{name}_before", "create", "-f", "-", "-o", "json", text=yaml.safe_dump(foreign_crd(*versions)))
        course.apply(name, proxies[name].kubeconfig)
        if name == "one":
            course.apply("one_removal", proxies[name].kubeconfig, **gone)
        course.kubectl(f"{name}_after", "get", *DEFINITION, "-o", "json")
        course.kubectl(f"{name}_removed", "delete", *DEFINITION)
    home = {"dispatcher_namespace": "shared", "dispatcher_appwrappers": False}
    course.kubectl("shared", "create", "namespace", "shared")
    course.apply("in_shared", **home)
    course.apply("without_flow_schema", **home, dispatcher_flow_schema=False)


@pytest.fixture(scope="module")
def removal(installed: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """What the play gave in which the role removes everything and meets what others made."""
    directory = tmp_path_factory.mktemp("removal")
    course = RoleCourse(ROLE, installed, directory)
    with proxies_for(installed, directory, *FOREIGN) as proxies:
        remove_and_find_foreign(course, proxies)
        return Installation(course.play(), proxies)


def test_absent_keeps_the_definition_while_wrappers_exist(removal):
    played = removal.played
    assert "1 AppWrapper(s) exist" in part_of(played, "first_removal")
    left = played["left"]["stdout_lines"]
    assert "appwrapper.workload.codeflare.dev/kept" in left
    assert "serviceaccount/muster" not in left
    namespaces = played["namespaces_left"]["stdout_lines"]
    assert "namespace/muster-system" not in namespaces
    assert "namespace/team" in namespaces
    # Both say that the definition goes: had check mode removed it, the second would find nothing to do.
    assert [changes(played, name) for name in ("foreseen_removal", "second_removal")] == [1, 1]
    assert "appwrapper" not in played["definitions_left"]["stdout"]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_definition_is_left_alone(removal, name):
    assert not [path for _method, path in written(removal.proxies[name]) if "customresourcedefinitions" in path]
    played = removal.played
    store, reason = played[name]["msg"]
    assert store == "configmap"
    assert f"serving {' and '.join(sorted(FOREIGN[name]))}" in reason
    before, after = (json.loads(played[f"{name}_{moment}"]["stdout"]) for moment in ("before", "after"))
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])
    assert "it is not ours" not in part_of(played, name)


def test_a_foreign_definition_is_not_removed(removal):
    assert "it is not ours" in part_of(removal.played, "one_removal")


def test_an_unwanted_flow_schema_goes_and_a_foreign_namespace_is_not_marked(own, removal):
    told = removal.played["in_shared"]["msg"]
    assert told == ["configmap", "Records are ConfigMaps: dispatcher_appwrappers is false."]
    for plural, name in FLOW_OBJECTS:
        path = resource_path("flowcontrol.apiserver.k8s.io/v1", plural, None, name)
        assert get_object(own.client, path) is None
    assert get_object(own.client, CRD_PATH) is None
    shared = get_object(own.client, resource_path("v1", "namespaces", None, "shared"))
    assert set(shared["metadata"]["labels"]) == {"kubernetes.io/metadata.name"}
    assert get_object(own.client, resource_path("v1", "serviceaccounts", "shared", "muster-dispatch")) is not None


def test_the_fixture_of_other_tests_installs_the_same_definition(own):
    wait_until("the definition to be gone", lambda: get_object(own.client, CRD_PATH) is None)
    install_wrapper_crd(own.client)
    install_wrapper_crd(own.client)
    live = get_object(own.client, CRD_PATH)
    assert live["spec"]["versions"] == read_wrapper_crd()["spec"]["versions"]
    delete(own.client, CRD_PATH)


@pytest.fixture
def mcad() -> t.Iterator[LiveCluster]:
    """A cluster with the real MCAD and one node of 8 CPUs."""
    nodes = (NodeGroup("kind", 1, "8", "8118372Ki", 110),)
    with running_cluster(f"mcad-{os.getpid()}", nodes=nodes, operators=("mcad",)) as running:
        running.namespace("team")
        yield running


@pytest.mark.full
def test_the_real_mcad_dispatches_and_its_definition_is_left_alone(mcad, tmp_path):
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [container]}}
    wrapper = ray_wrapper("wrapped")
    pod["metadata"]["namespace"] = "team"
    wrapper["spec"]["resources"]["GenericItems"] = [{"replicas": 1, "generictemplate": pod}]
    mcad.create(wrapper)
    path = resource_path(WRAPPER_API, "appwrappers", "team", "wrapped")

    def dispatched() -> Object | None:
        """Its status once it was dispatched."""
        status = (get_object(mcad.client, path) or {}).get("status") or {}
        return status if status.get("queuejobstate") == "Dispatched" else None

    status = wait_until("MCAD to dispatch the wrapper", dispatched)
    assert (status["state"], status["canrun"]) == ("Running", True)
    order = [item["type"] for item in status["conditions"]]
    assert order == ["Init", "Queueing", "HeadOfLine", "Dispatched"]
    wait_until("the pod to run", lambda: [item["status"].get("phase") for item in mcad.pods("team")] == ["Running"])
    before = get_object(mcad.client, CRD_PATH)["metadata"]["resourceVersion"]
    course = RoleCourse(ROLE, mcad, tmp_path)
    course.apply("beside_mcad")
    assert course.play()["beside_mcad"]["msg"][0] == "configmap"
    assert get_object(mcad.client, CRD_PATH)["metadata"]["resourceVersion"] == before
