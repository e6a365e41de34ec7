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
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.tests.support.api_proxy import assert_no_writes
from ansible_collections.muster.kube.tests.support.component_stage import config_map, widget, widget_crd
from ansible_collections.muster.kube.tests.support.gang_cases import job, node_pool, pod_template
from ansible_collections.muster.kube.tests.support.play import Played, play_tasks
from ansible_collections.muster.kube.tests.support.role_course import proxies_for

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
