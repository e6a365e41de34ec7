# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pure rules of local clusters."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    Catalogue,
    ClusterSpec,
    NodeGroup,
    Placeholders,
    ProcessSpec,
    Program,
    Webhook,
    build_command,
    check_flags,
    check_operators,
    check_programs,
    check_spec,
    expand,
    expand_object,
    rewrite_webhooks,
    switches_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

GROUP = NodeGroup(
    "gpu", 2, "8", "8118372Ki", 110, (("nvidia.com/gpu", "8"),), (("zone", "a"),), (Taint("gpu", "NoSchedule"),)
)
REAL = NodeGroup("real", 1, "", "", 110, real=True)
SERVICE_RANGE = (("kube-apiserver", (("service-cluster-ip-range", "10.97.0.0/16"),)),)


def placeholders(**paths):
    values = {"kubeconfig": "/k", "certificates": "/c", "feature_gates": "", "server": "https://s", **paths}
    ports = {"me": {"health": 1}, "etcd": {"client": 2}}
    return Placeholders("me", values, ports, lambda name: f"content of {name}".encode())


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        (ClusterSpec("Muster"), "name"),
        (ClusterSpec("../x"), "name"),
        (ClusterSpec("a" * 43), "name"),
        (ClusterSpec("a", (GROUP, GROUP)), "nodes[1].name"),
        (ClusterSpec("a", (NodeGroup("a_b", 1, "1", "1", 1),)), "nodes[0].name"),
        (ClusterSpec("a", (NodeGroup("a", -1, "1", "1", 1),)), "nodes[0].count"),
        (ClusterSpec("a", (NodeGroup("a", 1, "lots", "1", 1),)), "nodes[0] resource cpu"),
        (ClusterSpec("a", (NodeGroup("a", 1, "1", "1", 1, (("x/y", "z"),)),)), "nodes[0] resource x/y"),
        (ClusterSpec("a", operators=("kuberay", "kubera")), "operators[1]"),
        (ClusterSpec("a", (GROUP,), services=True), "services"),
        (
            ClusterSpec("a", (REAL,), services=True, component_flags=SERVICE_RANGE),
            "component_flags.kube-apiserver.service-cluster-ip-range",
        ),
    ],
)
def test_bad_specs_are_refused_naming_the_field(spec, where):
    with pytest.raises(BadInput) as refused:
        check_spec(spec, ["kuberay"])
    assert refused.value.target == where


def test_a_good_spec_passes():
    assert check_spec(ClusterSpec("a-1", (GROUP,), ("kuberay",)), ["kuberay"]) is None
    assert check_spec(ClusterSpec("a-1", (GROUP, REAL), services=True), ["kuberay"]) is None
    assert check_spec(ClusterSpec("a-1", (REAL,), component_flags=SERVICE_RANGE), ["kuberay"]) is None


@pytest.mark.parametrize(
    ("wanted", "refused", "cause"),
    [
        (("top",), 0, "top needs base and side beside it"),
        (("base", "top"), 1, "top needs side beside it"),
        (("base", "older"), 1, "older and base define the same kinds"),
        (("older", "base"), 0, "older and base define the same kinds"),
    ],
)
def test_operators_that_lack_or_bar_another_are_refused(wanted, refused, cause):
    plain = {"program": "p", "binary": "b", "ports": (), "arguments": (), "health_url": ""}
    operators = {
        "base": ProcessSpec("base", **plain),
        "side": ProcessSpec("side", **plain),
        "older": ProcessSpec("older", excludes=("base",), **plain),
        "top": ProcessSpec("top", needs=("base", "side"), **plain),
    }
    check_operators(ClusterSpec("a", operators=("top", "side", "base")), operators)
    check_operators(ClusterSpec("a", operators=("older",)), operators)
    with pytest.raises(BadInput, match=cause) as told:
        check_operators(ClusterSpec("a", operators=wanted), operators)
    assert told.value.target == f"operators[{refused}]"


def test_an_operator_of_the_real_node_is_refused_without_one():
    worker = ProcessSpec("worker", "p", "b", (), (), "", of_real_node=True)
    wanted = ClusterSpec("a", (real(),), operators=("worker",))
    check_operators(wanted, {"worker": worker})
    with pytest.raises(BadInput, match="worker works on a real node, and there is none"):
        check_operators(dataclasses.replace(wanted, nodes=(GROUP,)), {"worker": worker})


def test_programs_that_nobody_can_build_are_refused():
    catalogue = Catalogue({"helm": Program("helm", "m", "v1", (("helm", "m/helm"),))}, (), {})
    check_programs(ClusterSpec("a", programs=("helm",)), catalogue)
    with pytest.raises(BadInput, match="'helmet' is not in the catalogue; known are helm") as refused:
        check_programs(ClusterSpec("a", programs=("helm", "helmet")), catalogue)
    assert refused.value.target == "programs[1]"


def test_switches_are_sorted_so_that_equal_settings_give_equal_text():
    assert switches_text([("b", False), ("a", True)]) == "a=true,b=false"
    assert switches_text([]) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--x={kubeconfig}", "--x=/k"),
        ("{port:health}/{port:etcd:client}", "1/2"),
        ("{base64:ca.crt}", "Y29udGVudCBvZiBjYS5jcnQ="),
        ("{{ .Dir }} {unknown}", "{{ .Dir }} {unknown}"),
    ],
)
def test_placeholders_are_expanded_and_everything_else_is_left(text, expected):
    assert expand(text, placeholders()) == expected


def test_objects_are_expanded_at_any_depth():
    value = {"a": ["{server}", {"b": "{port:health}"}], "c": 1, "d": None}
    assert expand_object(value, placeholders()) == {"a": ["https://s", {"b": "1"}], "c": 1, "d": None}


def test_arguments_without_value_are_left_out():
    component = ProcessSpec("me", "p", "run", ("health",), ("--a", "--gates={feature_gates}", "--k={kubeconfig}"), "")
    assert build_command(component, "/bin", placeholders(), {}) == ["/bin/run", "--a", "--k=/k"]
    assert build_command(component, "/bin", placeholders(feature_gates="x=true"), {})[2] == "--gates=x=true"


def test_flags_of_the_user_replace_ours():
    component = ProcessSpec(
        "me", "p", "run", ("health",), ("--a", "--qps=1000", "--qps-burst=2", "--k={kubeconfig}"), ""
    )
    flags = ClusterSpec("c", component_flags=(("me", (("qps", "20"), ("a", "false"))),)).flags_of("me")
    command = build_command(component, "/bin", placeholders(), flags)
    assert command == ["/bin/run", "--qps-burst=2", "--k=/k", "--a=false", "--qps=20"]
    assert ClusterSpec("c").flags_of("me") == {}


@pytest.mark.parametrize(("component", "flag", "word"), [("you", "a", "but me"), ("me", "--a", "without dashes")])
def test_flags_of_nobody_and_bad_flags_are_refused(component, flag, word):
    known = ProcessSpec("me", "p", "run", (), (), "")
    check_flags(ClusterSpec("c", component_flags=(("me", (("a", "1"), ("quotaEnabled", "true"))),)), [known])
    with pytest.raises(BadInput) as refused:
        check_flags(ClusterSpec("c", component_flags=((component, ((flag, "1"),)),)), [known])
    assert refused.value.target == f"component_flags.{component}"
    assert word in refused.value.cause


def test_webhooks_are_reached_by_url():
    manifest = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "upstream"},
        "webhooks": [
            {"name": "a", "clientConfig": {"service": {"name": "s", "path": "/a"}}, "sideEffects": "None"},
            {"name": "b", "clientConfig": {"service": {"name": "s"}}},
        ],
    }
    result = rewrite_webhooks(manifest, Webhook("m", "K", "mine", "webhook", (("b", {"x": 1}),)), 9, "Q0E=")
    assert result["metadata"] == {"name": "mine"}
    assert result["webhooks"] == [
        {"name": "a", "clientConfig": {"url": "https://127.0.0.1:9/a", "caBundle": "Q0E="}, "sideEffects": "None"},
        {
            "name": "b",
            "clientConfig": {"url": "https://127.0.0.1:9/", "caBundle": "Q0E="},
            "objectSelector": {"x": 1},
        },
    ]


def real(**changes):
    return NodeGroup(**{"name": "real", "count": 1, "cpu": "", "memory": "", "pods": 110, "real": True, **changes})


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((real(count=2),), "there is one, not 2"),
        ((real(), real(name="other")), "can have one real node"),
        ((real(cpu="4"),), "has the cpu and memory of this machine"),
    ],
)
def test_a_real_node_is_this_machine_once(nodes, message):
    with pytest.raises(BadInput, match=message):
        check_spec(ClusterSpec("c", nodes), ())


def component(name, program="prog"):
    return ProcessSpec(name, program, "run", (), (), "")


CATALOGUE = Catalogue(
    {},
    (component("etcd", "etcd"), component("server", "kubernetes")),
    {"kuberay": component("kuberay", "kuberay"), "kueue": component("kueue", "kueue")},
    registry=component("registry", ""),
    real_node=(component("runtime", "containerd"), component("kubelet", "kubernetes")),
)


@pytest.mark.parametrize(
    ("spec", "names", "programs"),
    [
        (ClusterSpec("c"), ["etcd", "server"], ["etcd", "kubernetes"]),
        (ClusterSpec("c", operators=("kueue",)), ["etcd", "server", "kueue"], ["etcd", "kubernetes", "kueue"]),
        (ClusterSpec("c", registry=True), ["etcd", "server", "registry"], ["etcd", "kubernetes"]),
        (
            ClusterSpec("c", nodes=(real(),)),
            ["etcd", "server", "runtime", "kubelet"],
            ["etcd", "kubernetes", "containerd", "kubernetes", "pause"],
        ),
    ],
)
def test_a_cluster_has_the_processes_it_needs(spec, names, programs):
    assert [item.name for item in CATALOGUE.processes(spec)] == names
    assert CATALOGUE.program_names(spec) == programs


def test_a_catalogue_without_a_registry_starts_none():
    bare = Catalogue({}, (component("etcd"),), {})
    assert [item.name for item in bare.processes(ClusterSpec("c", registry=True))] == ["etcd"]
    assert [item.name for item in bare.all_processes()] == ["etcd"]
    assert len(CATALOGUE.all_processes()) == 7


def test_a_program_is_built_from_the_module_of_its_own_name_unless_told():
    assert Program("a", "m", "1", ()).source_name == "a"
    assert Program("a", "m", "1", (), source="b").source_name == "b"


def test_a_real_node_has_its_own_memory_as_well():
    with pytest.raises(BadInput, match="has the cpu and memory of this machine"):
        check_spec(ClusterSpec("c", (real(memory="1Gi"),)), ())
    assert check_spec(ClusterSpec("c", (GROUP, real())), ()) is None


def test_an_argument_with_one_of_two_values_stays():
    both = ProcessSpec("me", "p", "run", (), ("--x={kubeconfig},{feature_gates}",), "")
    assert build_command(both, "/bin", placeholders(), {}) == ["/bin/run", "--x=/k,"]
