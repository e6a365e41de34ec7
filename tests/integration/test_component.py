# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""component for real: what the server's dry run foretells is what happens, and what the guide shows works."""

from __future__ import annotations

import copy
import pathlib
import re
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._flow.component.provision import ProvisionOptions, provision
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import InstalledPrograms
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import read_component
from ansible_collections.muster.kube.tests.support.api_proxy import assert_no_writes
from ansible_collections.muster.kube.tests.support.component_stage import config_map, widget, widget_crd
from ansible_collections.muster.kube.tests.support.gang_cases import POOL_LABEL, job, node_pool, pod_template
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import Played, play_tasks
from ansible_collections.muster.kube.tests.support.role_course import proxies_for
from ansible_collections.muster.kube.tests.support.stack_stage import BUNDLE, hooks
from ansible_collections.muster.kube.tests.support.upstream_files import copy_of_module
from ansible_collections.muster.kube.tests.support.whole_cluster import everything

Object = dict[str, t.Any]
GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "components.md"
MOST_LINES = 30
HOME, SPACE, POOL = "component-home", "component-space", "component"
DRIFTED = resource_path("v1", "configmaps", HOME, "settings")


def placed(obj: Object, namespace: str = HOME) -> Object:
    """The object in a namespace."""
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def crd() -> Object:
    """The definition of a kind as a server wants it."""
    found = widget_crd()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    found["spec"]["names"]["singular"] = "widget"
    found["spec"]["versions"] = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    return found


def deployment(image: str) -> Object:
    """A workload of two pods."""
    template = pod_template(POOL, {"cpu": "100m"}, None)
    template["metadata"]["labels"] = {"app": "widget"}
    template["spec"]["restartPolicy"] = "Always"
    template["spec"]["containers"][0]["image"] = image
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "widget"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "operator"}, "spec": spec}


# In an order that would not work.
OBJECTS = [
    placed(widget()),
    placed(deployment("i:1")),
    placed(job("setup", POOL, seconds=1)),
    placed(config_map("settings", one="1", two="2")),
    placed(config_map("surplus")),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}},
    crd(),
]
# One object less, a field less in another, another image.
NEXT = [placed(deployment("i:2")), placed(config_map("settings", one="1")), *OBJECTS[:1], *OBJECTS[5:]]
BAD = copy.deepcopy(OBJECTS)
BAD[1]["spec"]["selector"]["matchLabels"]["app"] = "another"
BAD[3]["dta"] = {"misspelled": "field"}


def component(definition: t.Any = None, **options: t.Any) -> Object:
    """A task; keywords of the task beside the options begin with an underscore."""
    keywords = {name[1:]: options.pop(name) for name in [*options] if name.startswith("_")}
    given = {} if definition is None else {"definition": definition}
    return {"muster.kube.component": {"name": "widgets", **given, **options}, **keywords}


def tasks(proxies: t.Mapping[str, t.Any], drift: Object) -> dict[str, Object]:
    """A component foretold, made, found, put right, refused, changed and removed."""
    check = {"_check_mode": True, "_diff": True}
    nobody = {"impersonate_user": "nobody", "impersonate_groups": ["system:authenticated"]}
    return {
        "foretold": component(OBJECTS, kubeconfig=str(proxies["foretold"].kubeconfig), **check),
        "refused": component(OBJECTS[3:5], prune=False, **nobody),
        "made": component(OBJECTS, _diff=True),
        "again": component(OBJECTS, kubeconfig=str(proxies["again"].kubeconfig), _diff=True),
        "drift": drift,
        "repaired": component(OBJECTS, kubeconfig=str(proxies["repaired"].kubeconfig), _diff=True),
        "wrong": component(BAD, kubeconfig=str(proxies["wrong"].kubeconfig)),
        "next_foretold": component(NEXT, **check),
        "next": component(NEXT),
        "end_foretold": component(NEXT, state="absent", **check),
        "end": component(NEXT, state="absent"),
        "end_again": component(NEXT, state="absent", kubeconfig=str(proxies["end_again"].kubeconfig)),
    }


class Course(t.NamedTuple):
    """What a play gave, and the requests of some of its tasks."""

    played: Played
    proxies: t.Mapping[str, t.Any]


@pytest.fixture(scope="module")
def course(cluster: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Course]:
    """All tasks in one play."""
    directory = tmp_path_factory.mktemp("component")
    cluster.add_nodes(node_pool(POOL, 1, cpu="4"))
    changed = [
        "--kubeconfig",
        cluster.kubeconfig,
        "patch",
        "configmap",
        "settings",
        "-n",
        HOME,
        "-p",
        '{"data":{"one":"9"}}',
    ]
    drift = {"ansible.builtin.command": {"argv": [cluster.kubectl, *changed]}}
    with proxies_for(cluster, directory, "foretold", "again", "repaired", "wrong", "end_again") as proxies:
        defaults = {"group/muster.kube.kube": {"kubeconfig": cluster.kubeconfig}}
        yield Course(play_tasks(directory, tasks(proxies, drift), module_defaults=defaults), proxies)
    cluster.remove_nodes([f"{POOL}-n0"])


def actions(course: Course, name: str) -> dict[str, str]:
    """What became of each object."""
    return {f"{told['kind']} {told['name']}": told["action"] for told in course.played[name]["objects"]}


MADE = ["CustomResourceDefinition widgets.example.com", f"Namespace {HOME}", "Widget one", "Deployment operator"]
MADE += ["Job setup", "ConfigMap settings", "ConfigMap surplus"]


def test_check_mode_foretells_what_the_real_run_does_and_writes_nothing(course):
    assert list(actions(course, "foretold").items()) == [(name, "created") for name in MADE]
    assert_no_writes(course.proxies["foretold"])
    for name in ("foretold", "next_foretold", "end_foretold"):
        assert actions(course, name) == actions(course, {"foretold": "made"}.get(name, name.partition("_")[0])), name
    assert [told["untried"] for told in course.played["foretold"]["objects"]] == [False, False, *[True] * 5]


def test_a_second_run_changes_and_writes_nothing(course):
    assert course.proxies["again"].requests
    assert_no_writes(course.proxies["again"])
    assert course.played["made"]["changed"]
    assert not course.played["again"]["changed"]
    assert course.played["again"]["diff"] == []
    assert course.played["made"]["ran"] == "in_process"


def test_only_what_others_changed_is_put_right(course):
    assert [(request.method, request.path) for request in course.proxies["repaired"].writes] == [("PATCH", DRIFTED)]
    (shown,) = course.played["repaired"]["diff"]
    assert (shown["before"], shown["after"]) == ({"data": {"one": "9"}}, {"data": {"one": "1"}})


def test_all_that_is_wrong_is_told_before_anything_is_written(course):
    assert_no_writes(course.proxies["wrong"])
    refusals = {error["object"]: error["cause"] for error in course.played["wrong"]["error"]["refusals"]}
    assert "field is immutable" in refusals.pop(f"Deployment {HOME}/operator")
    assert "field not declared in schema" in refusals.pop(f"ConfigMap {HOME}/settings")
    assert refusals == {}


def test_a_missing_right_is_named_with_object_verb_and_cause(course):
    told = [error for error in course.played["refused"]["error"]["refusals"] if error["object"].endswith("settings")]
    assert (told[0]["verb"], told[0]["user"], told[0]["status"]) == ("get", "nobody", 403)


def test_what_is_described_no_more_goes(course):
    assert actions(course, "next") == {
        **dict.fromkeys((*MADE[:3],), "unchanged"),
        "Deployment operator": "changed",
        "ConfigMap settings": "changed",
        "ConfigMap surplus": "pruned",
        "Job setup": "pruned",
    }


def test_a_component_goes_and_leaves_nothing(cluster, course):
    assert set(actions(course, "end")) == {*MADE} - {"ConfigMap surplus", "Job setup"}
    assert get_object(cluster.client, resource_path("v1", "namespaces", None, HOME)) is None
    assert get_object(cluster.client, "/apis/example.com/v1") is None
    assert not course.played["end_again"]["changed"]
    assert_no_writes(course.proxies["end_again"])


def test_the_role_of_the_guide_makes_a_namespace_and_takes_it_away(cluster, tmp_path):
    (code,) = re.findall(r"## A role of your own.*?```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= MOST_LINES
    place = tmp_path / "roles" / "team_space" / "tasks"
    place.mkdir(parents=True)
    (place / "main.yml").write_text(code, encoding="utf-8")
    variables = {"team_space_name": SPACE, "team_space_group": "vision"}

    def apply(*, check: bool = False, **more: str) -> Object:
        """The role in a play."""
        role = {"name": "team_space", "apply": {"check_mode": check}}
        return {"ansible.builtin.include_role": role, "vars": {**variables, **more}, "ignore_errors": False}

    read = {"kubernetes.core.k8s_info": {"kind": "ResourceQuota", "namespace": SPACE, "name": "size"}}
    played = play_tasks(
        tmp_path,
        {
            "check": apply(check=True),
            "install": apply(),
            "again": apply(),
            "quota": read,
            "removal": apply(team_space_state="absent"),
            "removal_again": apply(team_space_state="absent"),
        },
        module_defaults={"group/muster.kube.kube": {"kubeconfig": cluster.kubeconfig}},
    )
    parts = re.split(r"TASK \[(?:check|install|again|quota|removal|removal_again|keep_answers)\]", played.output)[1:-1]
    assert [part.count("changed: [localhost]") for part in parts] == [1, 1, 0, 0, 1, 0]
    assert played["quota"]["resources"][0]["spec"]["hard"] == {"requests.nvidia.com/gpu": "8"}
    assert len(yaml.safe_load(code)) == 1
    assert get_object(cluster.client, resource_path("v1", "namespaces", None, SPACE)) is None


RAY_HOME = "component-kuberay"
RAY_POOL = "component-ray"
RAY = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "theirs", "namespace": "default"}}
RAY_CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "after-ray", "namespace": RAY_HOME}}


def overlay(directory: pathlib.Path) -> pathlib.Path:
    """KubeRay's own kustomization, in a namespace of its own and on our nodes."""
    copy_of_module("kuberay", "config", directory / "upstream")
    template = {"spec": {"template": {"spec": {"nodeSelector": {POOL_LABEL: RAY_POOL}}}}}
    patch = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kuberay-operator"}, **template}
    kustomization = {
        "resources": ["../upstream/default"],
        "namespace": RAY_HOME,
        "patches": [{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(patch)}],
    }
    place = directory / "overlay"
    place.mkdir()
    (place / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return place


def ray_tasks(cluster: t.Any, source: pathlib.Path, proxies: t.Mapping[str, t.Any]) -> dict[str, Object]:
    """KubeRay installed from its kustomization with a component that needs it, changed by hand, and taken away."""
    kuberay = {"name": "kuberay", "version": "1.4.2", "source": "kustomize", "src": str(source), "namespace": RAY_HOME}
    needy = {"name": "needy", "definition": [RAY_CONFIGMAP], "depends_on": ["kuberay"]}
    # Where kubectl is found, as for whoever has it installed.
    environment = {"PATH": f"{pathlib.Path(cluster.kubectl).parent}:{{{{ lookup('ansible.builtin.env', 'PATH') }}}}"}

    def run(name: str = "", *, check: bool = False, **options: t.Any) -> Object:
        """A task on both."""
        connection = {"kubeconfig": str(proxies[name].kubeconfig)} if name else {}
        task = {"components": [kuberay, needy], "wait_timeout": "5m", **connection, **options}
        return {"muster.kube.component": task, "environment": environment, "check_mode": check, "diff": True}

    def kubectl(*arguments: str, text: str = "") -> Object:
        """What somebody does by hand."""
        command = {"argv": [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, *arguments], "stdin": text}
        return {"ansible.builtin.command": command}

    told = {"kubeconfig": str(proxies["told"].kubeconfig), "components": [kuberay, needy]}
    end = {"state": "absent", "components": [{"name": "kuberay"}, {"name": "needy"}], "remove_definitions": True}
    return {
        "foretold": run("foretold", check=True),
        "made": run(),
        "again": run("again"),
        "scaled": kubectl("scale", "deployment", "kuberay-operator", "-n", RAY_HOME, "--replicas", "0"),
        "dropped": kubectl("delete", "service", "kuberay-operator", "-n", RAY_HOME),
        "told": {"muster.kube.component_info": told, "environment": environment},
        "repaired": run("repaired"),
        "used": kubectl("apply", "-f", "-", text=yaml.safe_dump(RAY)),
        "older": run("older", components=[{**kuberay, "version": "1.3.2"}]),
        "refused": run("refused", **end),
        "end": run(**end, with_resources=True),
        "end_again": run("end_again", **end),
    }


@pytest.fixture(scope="module")
def ray(cluster: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Course]:
    """All of it in one play, between two looks at everything there is."""
    directory = tmp_path_factory.mktemp("component-ray")
    cluster.add_nodes(node_pool(RAY_POOL, 1, cpu="4"))
    before = everything(cluster)
    names = ("foretold", "again", "told", "repaired", "older", "refused", "end_again")
    with proxies_for(cluster, directory, *names) as proxies:
        defaults = {"group/muster.kube.kube": {"kubeconfig": cluster.kubeconfig}}
        played = play_tasks(directory, ray_tasks(cluster, overlay(directory), proxies), module_defaults=defaults)
        yield Course(played, {**proxies, "before": before})
    cluster.remove_nodes([f"{RAY_POOL}-n0"])


def told_of(ray: Course, task: str, name: str = "kuberay") -> Object:
    """What is told of a component."""
    assert "components" in ray.played[task], ray.played[task].get("msg")
    return next(item for item in ray.played[task]["components"] if item["name"] == name)


@pytest.mark.full  # the role of the operator stack installs and removes the same
def test_an_operator_is_installed_from_its_kustomization_step_by_step(ray):
    made = told_of(ray, "made")
    assert (made["action"], made["version"]) == ("installed", "1.4.2")
    assert {step["step"]: step["outcome"] for step in made["ladder"]} == {
        **dict.fromkeys(("source", "definitions", "listable", "workloads"), "passed"),
        **dict.fromkeys(("webhooks", "condition", "nodes", "smoke"), "skipped"),
    }
    assert made["images"] == ["quay.io/kuberay/operator:v1.4.2"]
    assert told_of(ray, "made", "needy")["action"] == "installed"
    assert_no_writes(ray.proxies["foretold"])
    foretold = told_of(ray, "foretold")
    assert [(item["name"], item["action"]) for item in foretold["objects"]] == [
        (item["name"], item["action"]) for item in made["objects"]
    ]


def test_a_second_run_of_components_with_records_writes_nothing(ray):
    assert {item["action"] for item in ray.played["again"]["components"]} == {"unchanged"}
    assert not ray.played["again"]["changed"]
    assert_no_writes(ray.proxies["again"])


def test_what_somebody_changed_is_told_by_field_and_repaired(ray):
    assert_no_writes(ray.proxies["told"])
    told = told_of(ray, "told")
    drift = {item["kind"]: item for item in told["drift"]}
    assert drift["Deployment"]["before"]["spec"]["replicas"] == 0
    assert drift["Service"]["action"] == "created"
    assert told["missing"] == [f"Service {RAY_HOME}/kuberay-operator"]
    health = {step["step"]: step for step in told["health"]}
    assert health["workloads"]["reason"] == "0 pods are desired"
    repaired = told_of(ray, "repaired")
    assert (repaired["action"], repaired["plan"]["created"], repaired["plan"]["changed"]) == ("repaired", 1, 1)
    written = [request.path.rpartition("/")[2] for request in ray.proxies["repaired"].writes]
    assert {*written} == {"provision", "muster-component-kuberay", "kuberay-operator"}


def test_older_versions_and_removal_under_users_are_refused_before_any_write(ray):
    assert "version 1.4.2 is there, 1.3.2 is older" in ray.played["older"]["msg"]
    assert "users have 1 objects of its kinds: RayCluster default/theirs" in ray.played["refused"]["msg"]
    for name in ("older", "refused"):
        assert_no_writes(ray.proxies[name])


def test_taken_away_they_leave_nothing(cluster, ray):
    assert told_of(ray, "end")["action"] == told_of(ray, "end", "needy")["action"] == "removed"
    assert not ray.played["end_again"]["changed"]
    assert_no_writes(ray.proxies["end_again"])
    before = ray.proxies["before"]
    wait_until("all to be as before", lambda: everything(cluster) == before or None)


CONVERTED = "component-converted"


def converted_crd() -> Object:
    """The definition of a kind whose objects a Service converts, with a placeholder of a certificate."""
    found = crd()
    found["metadata"]["name"] = "gears.example.org"
    found["spec"] |= {"group": "example.org", "names": {"kind": "Gear", "plural": "gears", "singular": "gear"}}
    client = {"service": {"name": "hook", "namespace": CONVERTED}, "caBundle": "Cg=="}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return found


def waiting_hooks() -> Object:
    """A webhook configuration that is asked about nothing there is, with such a placeholder too."""
    found = hooks("component-gears", CONVERTED, "Cg==")
    rule = {"apiGroups": ["gears.none"], "apiVersions": ["v1"], "resources": ["none"], "operations": ["CREATE"]}
    found["webhooks"][0] |= {"rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return found


def test_certificates_that_others_write_stay_and_a_definition_that_stays_calls_nobody(cluster):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}}
    component = {"name": "gears", "namespace": CONVERTED, "definition": [converted_crd(), waiting_hooks(), service]}
    definition = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions", None, "gears.example.org")
    configuration = resource_path(
        "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", None, "component-gears"
    )

    def run(**options: t.Any) -> Object:
        """A task; what is told of the component."""
        read = read_component(component, needs_source=True)
        asked = ProvisionOptions((read,), wait_for="definitions", **options)
        result = provision(cluster.connect, asked, print, InstalledPrograms(dict)).as_result(diff=True)
        assert not result.get("failed"), result.get("msg")
        return t.cast("Object", result["components"][0])

    assert run()["action"] == "installed"
    # As cert-manager does it.
    client = {"clientConfig": {"caBundle": BUNDLE}}
    injected = {"spec": {"conversion": {"webhook": client}}}
    patch(cluster.client, definition, injected, field_manager="injector")
    change = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE}]
    patch(cluster.client, configuration, change, patch_type="json", field_manager="injector")
    assert run()["action"] == "unchanged"
    assert get_object(cluster.client, configuration)["webhooks"][0]["clientConfig"]["caBundle"] == BUNDLE
    assert run(state="absent")["kept"] == ["gears.example.org"]
    assert get_object(cluster.client, definition)["spec"]["conversion"] == {"strategy": "None"}
    assert get_object(cluster.client, configuration) is None
    assert run()["action"] == "repaired"
    assert run(state="absent", remove_definitions=True)["action"] == "removed"
    assert get_object(cluster.client, definition) is None
    assert get_object(cluster.client, resource_path("v1", "namespaces", None, CONVERTED)) is None
