# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role operator_stack for real: rows of the catalogue from sources on this machine, made once and taken away."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.releases import list_revisions
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.tests.support.api_proxy import assert_no_writes
from ansible_collections.muster.kube.tests.support.gang_cases import POOL_LABEL, node_pool, pod_template
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import Played, play_tasks, run_playbook
from ansible_collections.muster.kube.tests.support.role_course import proxies_for
from ansible_collections.muster.kube.tests.support.shared_cluster import built_program
from ansible_collections.muster.kube.tests.support.upstream_files import copy_of_module
from ansible_collections.muster.kube.tests.support.whole_cluster import everything

Object = dict[str, t.Any]
POOL = "operator-stack"
HOME = "operator-stack-gears"
END = {"operator_stack_state": "absent", "operator_stack_remove_definitions": True}
LOCAL_PATH = "{{ lookup('ansible.builtin.env', 'PATH') }}"


def write(directory: pathlib.Path, **documents: t.Any) -> pathlib.Path:
    """A directory with these documents."""
    directory.mkdir()
    for name, document in documents.items():
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return directory


def on_the_pool(directory: pathlib.Path) -> pathlib.Path:
    """KubeRay's own kustomization, with its pods on our nodes."""
    copy_of_module("kuberay", "config", directory / "upstream")
    template = {"spec": {"template": {"spec": {"nodeSelector": {POOL_LABEL: POOL}}}}}
    patch = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kuberay-operator"}, **template}
    patches = [{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(patch)}]
    upstream = {"resources": ["../upstream/default"], "namespace": "default", "patches": patches}
    return write(directory / "overlay", kustomization=upstream)


def gears(directory: pathlib.Path) -> pathlib.Path:
    """A small kustomization."""
    template = pod_template(POOL, {"cpu": "100m"}, None)
    template["metadata"]["labels"] = {"app": "gears"}
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "gears"}}, "template": template}
    operator = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gears"}, "spec": spec}
    return write(directory / "gears", kustomization={"resources": ["operator.yaml"]}, operator=operator)


def own_catalogue(directory: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    """A catalogue with the row of KubeRay as the role has it, and one of our own."""
    role = pathlib.Path(__file__).resolve().parents[2] / "roles/operator_stack/files"
    rows = directory / "files" / "components"
    rows.mkdir(parents=True)
    kuberay = yaml.safe_load((role / "components/kuberay.yml").read_text(encoding="utf-8"))
    del kuberay["excludes"], kuberay["features"]
    row = {
        "name": "gears",
        "title": "Gears of a test",
        "proof": "none",
        "source": "kustomize",
        "src": str(source),
        "namespace": HOME,
        "depends_on": ["kuberay"],
        "expects": {"workloads": [f"Deployment {HOME}/gears"]},
        "smoke": {"definition": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "smoke"}}]},
    }
    versions = yaml.safe_load((role / "versions.yml").read_text(encoding="utf-8"))
    table = {"kuberay": versions["kuberay"], "gears": [{"version": "0.1.0", "kubernetes": ">=1.30"}]}
    profiles = {"small": {"title": "Both", "components": {"gears": {}}}}
    for name, text in (("kuberay", kuberay), ("gears", row)):
        (rows / f"{name}.yml").write_text(yaml.safe_dump(text), encoding="utf-8")
    for name, data in (("versions", table), ("profiles", profiles)):
        (directory / "files" / f"{name}.yml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return directory / "files"


def role_run(programs: t.Sequence[str], variables: Object, *, check: bool = False) -> Object:
    """The role in a play, where these directories of programs are found."""
    path = ":".join([*programs, LOCAL_PATH])
    role = {"name": "muster.kube.operator_stack", "apply": {"check_mode": check, "environment": {"PATH": path}}}
    return {"ansible.builtin.include_role": role, "vars": variables}


def result_of(name: str) -> Object:
    """What the role's task told, kept under a name."""
    return {"ansible.builtin.set_fact": {f"told_{name}": "{{ operator_stack_result }}"}}


class Stack(t.NamedTuple):
    """What a play gave, the requests of some of its runs, and what there was before."""

    played: Played
    proxies: t.Mapping[str, t.Any]
    before: set[tuple[str, str, str]]
    directory: pathlib.Path | None = None

    def components(self, name: str) -> dict[str, Object]:
        """What a run told of each component."""
        told = self.played[f"kept_{name}"]["ansible_facts"][f"told_{name}"]
        assert not told.get("failed"), told["msg"]
        return {item["name"]: item for item in told["components"]}


def play_runs(
    cluster: t.Any, directory: pathlib.Path, programs: t.Sequence[str], steps: t.Mapping[str, Object]
) -> Stack:
    """Runs of the role with what is done between them, in one play; a step with a task in it is no run."""
    before = everything(cluster)
    runs = [name for name, step in steps.items() if "ansible.builtin.command" not in step]
    with proxies_for(cluster, directory, *runs) as proxies:
        tasks: dict[str, Object] = {}
        for name, step in steps.items():
            if name not in runs:
                tasks[name] = step
                continue
            connection = {"operator_stack_kubeconfig": str(proxies[name].kubeconfig)}
            tasks[name] = role_run(programs, {**step, **connection}, check=name == "foretold")
            tasks[f"kept_{name}"] = result_of(name)
        return Stack(play_tasks(directory, tasks), proxies, before)


@pytest.fixture(scope="module")
def stack(cluster: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Stack]:
    """The role foretold, carried out, carried out again, and taken away, in one play."""
    directory = tmp_path_factory.mktemp("operator-stack")
    cluster.add_nodes(node_pool(POOL, 1, cpu="4"))
    files, kuberay = own_catalogue(directory, gears(directory)), on_the_pool(directory)
    wanted = {
        "operator_stack_files": str(files),
        "operator_stack_profile": "small",
        "operator_stack_components": {"kuberay": {"src": str(kuberay)}},
        "operator_stack_wait_timeout": "5m",
    }
    ends = {**wanted, **END}
    runs = {"foretold": wanted, "made": wanted, "again": wanted, "end": ends, "end_again": ends}
    found = play_runs(cluster, directory, [str(pathlib.Path(cluster.kubectl).parent)], runs)
    (directory / "variables.json").write_text(json.dumps({**wanted, "operator_stack_kubeconfig": cluster.kubeconfig}))
    yield found._replace(directory=directory)
    cluster.remove_nodes([f"{POOL}-n0"])


@pytest.mark.proves("kuberay", "installed")
def test_a_profile_is_installed_in_order_as_check_mode_foretold(stack):
    made = stack.components("made")
    assert {name: told["action"] for name, told in made.items()} == {"kuberay": "installed", "gears": "installed"}
    assert made["kuberay"]["row"]["title"] == "Ray clusters, jobs and services"
    for told in made.values():
        assert {step["step"]: step["outcome"] for step in told["ladder"]}["workloads"] == "passed"
    assert made["gears"]["ladder"][-1]["outcome"] == "passed"
    assert_no_writes(stack.proxies["foretold"])
    for name, told in stack.components("foretold").items():
        assert told["plan"] == made[name]["plan"]


def test_a_second_run_writes_nothing_and_asks_for_no_rights(stack):
    assert {told["action"] for told in stack.components("again").values()} == {"unchanged"}
    assert_no_writes(stack.proxies["again"])
    assert [request.path for request in stack.proxies["again"].requests if "reviews" in request.path] == []


def test_taken_away_they_leave_nothing(cluster, stack):
    assert {told["action"] for told in stack.components("end").values()} == {"removed"}
    assert {told["action"] for told in stack.components("end_again").values()} == {"unchanged"}
    assert_no_writes(stack.proxies["end_again"])
    wait_until("all to be as before", lambda: everything(cluster) == stack.before or None)


def test_the_playbook_foretells_the_same_with_variables_only(cluster, stack):
    path = f"{pathlib.Path(cluster.kubectl).parent}:{os.environ['PATH']}"
    arguments = ("muster.kube.provision", "--check", "--extra-vars", "@variables.json")
    output, code = run_playbook(stack.directory, *arguments, PATH=path)
    assert code == 0, output
    assert "changed=1" in output
    assert everything(cluster) == stack.before


CHARTS = {"jobset": "charts/jobset", "lws": "charts/lws"}
# The JobSet that another program is built with.
OLDER, OLDER_PLACE = "0.8.1", ("kueue-v0.12", CHARTS["jobset"])


@pytest.fixture(scope="module")
def charts(cluster: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Stack]:
    """Rows whose charts lie in the modules of their programs: an older version, the one of the catalogue, and drift."""
    directory = tmp_path_factory.mktemp("operator-charts")
    cluster.add_nodes(node_pool(POOL, 1, cpu="8"))
    wanted: dict[str, Object] = {}
    for name, part in CHARTS.items():
        wanted[name] = chart_of(copy_of_module(name, part, directory / name))
    older = chart_of(copy_of_module(*OLDER_PLACE, directory / "jobset-before", f"sigs.k8s.io/jobset@v{OLDER}"))
    # Nobody makes certificates here, so nobody gets further.
    common = {"operator_stack_wait_timeout": "5m", "operator_stack_wait_for": "workloads"}
    before = {
        "operator_stack_components": {"jobset": older},
        "operator_stack_versions": {"jobset": [{"version": OLDER, "kubernetes": ">=1.29"}]},
    }
    now = {**common, "operator_stack_components": wanted}
    kueue = chart_of(copy_of_module("kueue", "charts/kueue", directory / "kueue"))
    queue = {**common, "operator_stack_components": {"kueue": kueue}}
    scale = ["scale", "deployment", "jobset-controller", "-n", "jobset-system", "--replicas", "0"]
    scaled = {"ansible.builtin.command": {"argv": [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, *scale]}}
    steps: dict[str, Object] = {
        "older": {**common, **before},
        "foretold": now,
        "made": now,
        "again": now,
        "scaled": scaled,
        "repaired": now,
        "end": {**now, **END},
        "end_again": {**now, **END},
        # Alone, since its webhooks would have to judge the objects of all others, and nobody answers for them.
        "queue": queue,
        "queue_again": queue,
        "queue_end": {**queue, **END},
    }
    programs = [str(built_program("helm")), str(pathlib.Path(cluster.kubectl).parent)]
    yield play_runs(cluster, directory, programs, steps)
    cluster.remove_nodes([f"{POOL}-n0"])


def chart_of(directory: pathlib.Path) -> Object:
    """What a user writes of a chart on this machine."""
    about = yaml.safe_load((directory / "Chart.yaml").read_text(encoding="utf-8"))
    return {"chart": str(directory), "chart_version": about["version"]}


def written(charts: Stack, name: str) -> list[str]:
    """The last parts of the addresses that a run wrote to, each once."""
    return sorted({request.path.rpartition("/")[2] for request in charts.proxies[name].writes})


@pytest.mark.full
@pytest.mark.proves("jobset", "installed")
@pytest.mark.proves("lws", "installed")
def test_charts_are_installed_and_upgraded_under_their_records(charts):
    older, made = charts.components("older"), charts.components("made")
    assert {name: (told["action"], told["version"]) for name, told in older.items()} == {"jobset": ("installed", OLDER)}
    assert {name: told["action"] for name, told in made.items()} == {"jobset": "upgraded", "lws": "installed"}
    assert made["jobset"]["versions"] == {"before": OLDER, "after": "0.10.1"}
    for told in made.values():
        steps = {step["step"]: step["outcome"] for step in told["ladder"]}
        assert [steps[name] for name in ("definitions", "listable", "workloads")] == ["passed"] * 3
    assert_no_writes(charts.proxies["foretold"])
    foretold = charts.components("foretold")
    assert {name: told["plan"] for name, told in foretold.items()} == {n: told["plan"] for n, told in made.items()}


@pytest.mark.full
def test_a_second_run_writes_no_revision_and_what_was_changed_by_hand_is_repaired(charts):
    assert {told["action"] for told in charts.components("again").values()} == {"unchanged"}
    assert_no_writes(charts.proxies["again"])
    repaired = charts.components("repaired")
    assert {name: told["action"] for name, told in repaired.items()} == {"jobset": "repaired", "lws": "unchanged"}
    assert "jobset-controller" in written(charts, "repaired")
    assert not any("lws" in name for name in written(charts, "repaired"))


@pytest.mark.full
@pytest.mark.proves("kueue", "installed")
def test_a_chart_with_definitions_and_apis_among_its_templates_comes_once_and_goes(charts):
    made = charts.components("queue")["kueue"]
    assert (made["action"], made["plan"]["changed"]) == ("installed", 0)
    assert charts.components("queue_again")["kueue"]["action"] == "unchanged"
    assert_no_writes(charts.proxies["queue_again"])
    assert charts.components("queue_end")["kueue"]["action"] == "removed"


@pytest.mark.full
def test_charts_taken_away_leave_nothing(cluster, charts):
    assert {told["action"] for told in charts.components("end").values()} == {"removed"}
    assert_no_writes(charts.proxies["end_again"])
    for name in CHARTS:
        assert list_revisions(cluster.client, f"{name}-system", name) == ()
        assert get_object(cluster.client, resource_path("v1", "namespaces", None, f"{name}-system")) is None
    wait_until("all to be as before", lambda: everything(cluster) == charts.before or None)
