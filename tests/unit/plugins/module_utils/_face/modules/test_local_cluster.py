# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of local_cluster become typed values."""

from __future__ import annotations

import pathlib

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.cache import cache_path
from ansible_collections.muster.kube.plugins.module_utils._face.modules import local_cluster_info
from ansible_collections.muster.kube.plugins.module_utils._face.modules.local_cluster import FACE
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import NodeGroup
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def validated(**options):
    result = ArgumentSpecValidator(FACE.spec).validate(options)
    assert result.error_messages == []
    return result.validated_parameters


def test_no_option_at_all_asks_for_a_cluster_without_nodes(monkeypatch):
    monkeypatch.delenv("MUSTER_CACHE", raising=False)
    request = FACE.options(validated(), True)
    assert (request.spec.name, request.spec.nodes, request.state, request.provider) == (
        "muster",
        (),
        "present",
        "binaries",
    )
    assert request.cache == pathlib.Path.home() / ".cache" / "muster-kube"
    assert request.files is None
    assert request.check_mode is True
    assert request.auth == {}


def test_node_groups_are_taken_as_written():
    nodes = [
        {
            "name": "gpu",
            "count": "3",
            "cpu": 8,
            "memory": "1Gi",
            "extended": {"nvidia.com/gpu": 8},
            "labels": {"fast": True, "row": 1},
            "taints": [{"key": "k", "effect": "NoExecute"}],
        }
    ]
    spec = FACE.options(validated(nodes=nodes), False).spec
    assert spec.nodes == (
        NodeGroup(
            "gpu",
            3,
            "8",
            "1Gi",
            110,
            (("nvidia.com/gpu", "8"),),
            (("fast", "true"), ("row", "1")),
            (Taint("k", "NoExecute"),),
        ),
    )


def test_a_real_node_has_no_size_of_its_own_and_a_registry_is_a_switch():
    spec = FACE.options(validated(nodes=[{"name": "real", "real": True}], registry=True), False).spec
    assert spec.nodes == (NodeGroup("real", 1, "", "", 110, real=True),)
    assert (spec.real_group, spec.registry) == (spec.nodes[0], True)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"cpu": "1"}], "real is False but all of the following are missing: memory found in nodes"),
        ([{"cpu": "1", "memory": "1", "gpu": 1}], "nodes.gpu"),
        ([{"cpu": "1", "memory": "1", "taints": [{"key": "a", "effect": "Never"}]}], "NoSchedule"),
    ],
)
def test_bad_node_groups_are_refused_by_the_specification(nodes, message):
    result = ArgumentSpecValidator(FACE.spec).validate({"nodes": nodes})
    assert message in " ".join(result.error_messages)


def test_switches_accept_what_ansible_takes_for_true_and_false():
    params = validated(feature_gates={"A": "yes", "B": False}, runtime_config={"api/all": "false"})
    spec = FACE.options(params, False).spec
    assert spec.feature_gates == (("A", True), ("B", False))
    assert spec.runtime_config == (("api/all", False),)


def test_other_values_of_switches_are_refused_by_name():
    with pytest.raises(BadInput) as refused:
        FACE.options(validated(feature_gates={"A": "perhaps"}), False)
    assert refused.value.target == "feature_gates.A"


def test_flags_are_text_by_component():
    params = validated(component_flags={"kube-scheduler": {"kube-api-qps": 20, "leader-elect": True}})
    flags = FACE.options(params, False).spec.component_flags
    assert flags == (("kube-scheduler", (("kube-api-qps", "20"), ("leader-elect", "true"))),)


def test_flags_that_are_no_mapping_are_refused():
    with pytest.raises(BadInput) as refused:
        FACE.options(validated(component_flags={"kube-scheduler": ["--v=2"]}), False)
    assert refused.value.target == "component_flags.kube-scheduler"


def test_operators_are_taken_once_and_in_order():
    assert FACE.options(validated(operators=["b", "a", "b"]), False).spec.operators == ("b", "a")


def test_programs_are_taken_once_and_in_order():
    assert FACE.options(validated(programs=["b", "a", "b"]), False).spec.programs == ("b", "a")


def test_the_cache_is_taken_from_option_or_environment(monkeypatch):
    monkeypatch.setenv("MUSTER_CACHE", "/from/environment")
    assert cache_path(validated()) == pathlib.Path("/from/environment")
    assert cache_path(validated(cache="/from/option")) == pathlib.Path("/from/option")


def test_connection_options_are_kept_apart():
    request = FACE.options(validated(provider="existing", kubeconfig="/k", context="c"), False)
    assert request.auth == {"kubeconfig": "/k", "context": "c"}


def test_both_modules_share_the_cache_option():
    assert local_cluster_info.FACE.spec["cache"] == FACE.spec["cache"]
