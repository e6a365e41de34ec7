# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue: the real one is sound, and mistakes in another are named."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import (
    build_catalogue,
    load_documents,
    read_catalogue,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    PLACEHOLDER,
    ClusterSpec,
    NodeGroup,
    check_operators,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

FILES = pathlib.Path(__file__).resolve().parents[6] / "roles" / "local_cluster" / "files"
REAL = read_catalogue(FILES)
COMPONENTS = REAL.all_processes()
# Programs of other people's modules; what is left are our own sources.
FOREIGN = [program for program in REAL.programs.values() if not program.module.startswith("muster.kube/")]


@pytest.mark.parametrize("program", FOREIGN, ids=lambda program: program.name)
def test_versions_are_those_of_the_go_modules(program):
    go_mod = (FILES / "go" / program.source_name / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(program.module)} (v\S+)", go_mod, re.MULTILINE)
    assert found is not None
    assert found.group(1) == program.version


@pytest.mark.parametrize("program", FOREIGN, ids=lambda program: program.name)
def test_every_package_is_a_tool_of_its_go_module(program):
    go_mod = (FILES / "go" / program.source_name / "go.mod").read_text()
    tools = set(re.findall(r"^(?:tool |\t)(\S+)$", go_mod, re.MULTILINE))
    assert {package for _binary, package in program.binaries} <= tools


def test_every_go_module_is_in_the_catalogue():
    assert {path.name for path in (FILES / "go").iterdir()} == {item.source_name for item in REAL.programs.values()}


def test_our_own_sources_lie_beside_their_go_module():
    own = [program for program in REAL.programs.values() if program not in FOREIGN]
    assert [program.name for program in own] == ["pause", "service-forwarder"]
    for program in own:
        source = FILES / "go" / program.source_name
        assert f"module {program.module}\n" in (source / "go.mod").read_text()
        assert {package for _binary, package in program.binaries} == {program.module}
        assert (source / f"{program.name}.go").is_file()


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_ports_in_placeholders_exist(component):
    texts = [*component.arguments, component.health_url, *dict(component.files).values()]
    ports = {item.name: set(item.ports) for item in COMPONENTS}
    used = [key.split(":")[1:] for text in texts for key in PLACEHOLDER.findall(text) if key.startswith("port:")]
    assert used
    for place in used:
        owner = place[0] if len(place) == 2 else component.name
        assert place[-1] in ports[owner]


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_nothing_listens_beyond_loopback(component):
    data = [text for obj in component.objects for text in (obj.get("data") or {}).values()]
    texts = [*dict(component.files).values(), *data]
    settings = [*component.arguments, *(line for text in texts for line in text.splitlines())]
    listening = [text for text in settings if re.search(r"(address|addr)\b(?!-types)|listen|bind", text, re.IGNORECASE)]
    # The kubelet is reached by the address of its node, which only the bridge of the cluster has; what listens at the
    # address of services is bound to that bridge.
    allowed = ("127.0.0.1", ".sock", "{node_ip}", "{service_address}")
    assert all(any(place in text for place in allowed) for text in listening)


def test_scheduler_and_controller_manager_may_talk_fast():
    for name in ("kube-controller-manager", "kube-scheduler"):
        arguments = next(item.arguments for item in REAL.control_plane if item.name == name)
        assert {"--kube-api-qps=1000", "--kube-api-burst=2000"} <= set(arguments)


def test_what_converts_has_a_port_and_a_certificate_for_it():
    [converting] = [operator for operator in REAL.operators.values() if operator.conversion is not None]
    assert converting.name == "kueue"
    assert converting.conversion.port in converting.ports
    assert converting.certificate is not None


def test_the_operators_of_the_issue_are_there():
    first = {"kuberay", "training-operator", "jobset", "kueue", "mcad"}
    assert set(REAL.operators) == first | {
        "appwrapper",
        "lws",
        "external-secrets",
        "nfd",
        "nfd-worker",
        "kueue-v0.12",
        "kaiwo",
    }


def test_copied_directories_exist():
    copies = [FILES / name for component in COMPONENTS for name in component.copies]
    assert copies
    assert all(path.is_dir() for path in copies)


def test_components_come_in_starting_order(catalogue_data):
    names = [
        component.name for component in build_catalogue(catalogue_data).processes(ClusterSpec("c", operators=("ray",)))
    ]
    assert names == ["etcd", "kube-apiserver", "kube-scheduler", "ray"]


def test_a_registry_and_a_real_node_are_run_and_built_only_on_demand():
    plain, real = ClusterSpec("c"), ClusterSpec("c", (NodeGroup("n", 1, "", "", 1, real=True),), registry=True)
    more = [component.name for component in REAL.processes(real)[len(REAL.processes(plain)) :]]
    assert more == ["registry", "containerd", "kubelet"]
    assert not {"kubelet", "pause"} & set(REAL.program_names(plain))
    assert {"kubelet", "pause"} <= set(REAL.program_names(real))
    assert "service-forwarder" not in REAL.program_names(real)


def test_what_forwards_to_the_api_server_is_on_its_bridge_before_the_pods():
    spec = ClusterSpec("c", (NodeGroup("n", 1, "", "", 1, real=True),), services=True)
    assert [component.name for component in REAL.processes(spec)][-3:] == ["service-forwarder", "containerd", "kubelet"]
    assert "service-forwarder" in REAL.program_names(spec)
    assert "--device={network}" in REAL.services.arguments


def test_a_program_that_no_process_is_is_built_only_for_who_asks_for_it():
    assert "helm" not in {component.program for component in COMPONENTS}
    assert "helm" not in REAL.program_names(ClusterSpec("c", operators=tuple(REAL.operators)))
    assert REAL.program_names(ClusterSpec("c", programs=("helm",)))[-1] == "helm"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("program", "nothing", "etcd names the unknown program 'nothing'"),
        ("binary", "nothing", "etcd names the unknown binary 'nothing'"),
        ("port", "x", "etcd has the unknown key 'port'"),
    ],
)
def test_names_that_point_nowhere_are_refused(catalogue_data, key, value, message):
    catalogue_data["control_plane"][0][key] = value
    with pytest.raises(ValueError, match=message):
        build_catalogue(catalogue_data)


@pytest.mark.parametrize("key", ["needs", "excludes"])
def test_operators_that_point_at_no_operator_are_refused(catalogue_data, key):
    catalogue_data["operators"]["ray"][key] = ["nothing"]
    with pytest.raises(ValueError, match="ray names the unknown operator 'nothing'"):
        build_catalogue(catalogue_data)


def test_operators_that_define_the_same_kinds_bar_each_other():
    barred = {name: item.excludes for name, item in REAL.operators.items() if item.excludes}
    assert barred == {"mcad": ("appwrapper",), "kueue-v0.12": ("kueue",)}


def test_what_an_operator_needs_can_be_in_one_cluster_with_it():
    for name, operator in REAL.operators.items():
        nodes = (NodeGroup("n", 1, "", "", 1, real=True),) if operator.of_real_node else ()
        check_operators(ClusterSpec("c", nodes, operators=(*operator.needs, name)), REAL.operators)


@pytest.mark.parametrize(
    ("content", "message"),
    [("- a", "one mapping"), ("a: 1", "KeyError: 'programs'"), ("programs: {}\ncontrol_plane: 1", "TypeError")],
)
def test_a_catalogue_of_another_shape_is_refused_by_its_path(tmp_path, content, message):
    (tmp_path / "programs.yml").write_text(content)
    with pytest.raises(BadInput, match=message) as refused:
        read_catalogue(tmp_path)
    assert refused.value.target == str(tmp_path / "programs.yml")


def test_a_file_that_is_missing_or_not_yaml_is_named(tmp_path):
    with pytest.raises(MusterError, match="No such file"):
        load_documents(tmp_path / "missing.yml")
    (tmp_path / "bad.yml").write_text("a: [")
    with pytest.raises(MusterError, match=r"bad\.yml"):
        load_documents(tmp_path / "bad.yml")
