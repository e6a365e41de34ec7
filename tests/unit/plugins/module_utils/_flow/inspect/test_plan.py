# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a run, read strictly, and the names that follow from them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import (
    checked_identifier,
    inspection_name,
    label_keys,
    plan_run,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import run_hash
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.inspector import terms_of

DIGEST = "sha256:" + "0" * 64


def plan(**options):
    return plan_run(terms_of({"image": "i:1", "script": "x", **options}), b"x", "i:1")


def test_defaults():
    spec = plan().spec
    assert (spec.repetitions, spec.parallelism, spec.warmup, spec.allowed_failures) == (1, 1, 0, 0)
    assert (spec.timeout, spec.output_bytes, spec.resources) == (3600, 65536, {})


def test_what_shapes_the_results_is_read():
    spec = plan(
        args=["a"],
        env={"B": 2, "A": True, "C": ""},
        files=[{"path": "/f", "content_base64": "/w==", "mode": "0755"}],
        run={"requests": {"cpu": 1, "memory": "1Gi"}, "hardware": {"gpu": {"vendor": "amd", "count": 2}}},
        timeout="1.5",
    ).spec
    assert [(entry["name"], entry["value"]) for entry in spec.environment] == [("A", "true"), ("B", "2"), ("C", "")]
    assert (spec.files[0].content, spec.files[0].mode) == (b"\xff", 0o755)
    assert spec.resources == {"cpu": "1", "memory": "1Gi", "amd.com/gpu": "2"}
    assert spec.timeout == 2


def test_a_variable_may_come_from_a_secret_and_its_value_is_kept_nowhere():
    (entry,) = plan(env={"TOKEN": {"secret": "s", "key": "k"}}).spec.environment
    assert entry == {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    with pytest.raises(BadInput, match="unknown key"):
        plan(env={"TOKEN": {"secret": "s", "keys": "k"}})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"repetitions": 0}, "run: repetitions"),
        ({"parallelism": -1}, "run: parallelism"),
        ({"output_bytes": 10**9}, "run: output_bytes"),
        ({"env": {"MUSTER_INDEX": "1"}}, "env.MUSTER_INDEX"),
        ({"env": {"a-b": "1"}}, "env.a-b"),
        ({"files": [{"path": "/a", "content": "", "mode": "rwx"}]}, "mode"),
        ({"files": [{"path": "/a", "content_base64": "*"}]}, "no base64"),
        ({"files": [{"path": "/a", "content": ""}, {"path": "/a", "content": "x"}]}, "a path is given twice"),
        ({"run": {"requests": {"cpu": "lots"}}}, "requests.cpu"),
        ({"run": {"requests": {"cpu": "0"}}}, "requests.cpu"),
        ({"run": {"hardware": {"cpu": {"level": "v9"}}}}, "level"),
        ({"timeout": "0"}, "timeout"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_option(options, complaint):
    with pytest.raises(BadInput, match=complaint):
        plan(**options)


def test_the_identity_follows_what_shapes_the_results_and_nothing_else():
    base = run_hash(plan().spec, DIGEST)
    assert run_hash(plan(args=["a"]).spec, DIGEST) != base
    assert run_hash(plan(run={"requests": {"cpu": "1"}}).spec, DIGEST) != base
    assert run_hash(plan().spec, None) != base
    assert run_hash(plan(service_account="other", tolerations=[{"operator": "Exists"}], ttl="1h").spec, DIGEST) == base


def test_rights_shape_the_results_and_the_usual_ones_leave_the_identity_as_it_was():
    base = run_hash(plan().spec, DIGEST)
    assert plan().spec.security == {}
    assert run_hash(plan(security={}).spec, DIGEST) == base
    assert run_hash(plan(security={"run_as_user": 1000}).spec, DIGEST) != base
    with pytest.raises(BadInput, match="security"):
        plan(security={"run_as_user": -5})


def test_names():
    assert inspection_name(None, "0123456789abcdef") == "inspection-0123456789"
    assert inspection_name("x", "0123456789abcdef") == "inspection-x-0123456789"


@pytest.mark.parametrize("identifier", ["A", "a_b", "-a", "a-", "a" * 23, ""])
def test_identifiers_must_fit_names_and_labels(identifier):
    with pytest.raises(BadInput, match="identifier"):
        checked_identifier(identifier)


def test_pods_are_sent_to_the_hardware_and_its_labels_are_kept():
    terms = plan(run={"hardware": {"arch": "amd64", "node_selector": {"disk": "fast"}}}).pod_options([])
    assert label_keys(terms) == ("disk", "kubernetes.io/arch")
    assert plan().pod_options(None).affinity is None


def test_gpus_bring_their_toleration():
    terms = plan(run={"hardware": {"gpu": {}}}, tolerations=[{"key": "own"}]).pod_options([])
    assert [item["key"] for item in terms.tolerations] == ["own", "nvidia.com/gpu"]
