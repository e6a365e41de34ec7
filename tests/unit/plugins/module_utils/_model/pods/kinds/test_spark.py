# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SparkApplications: how cores, memory and overhead become what the pods of driver and executors ask for."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import (
    expected_pods,
    is_finite,
    item_outcome,
    pod_templates,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.kind_cases import template, thing

Object = dict[str, t.Any]
MI = 1024**2


def application(driver: Object | None = None, executor: Object | None = None, **spec: t.Any) -> Object:
    """A SparkApplication."""
    roles = {"driver": driver or {}, "executor": executor or {}}
    return thing("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"type": "Scala", **roles, **spec})


def podsets(obj: Object) -> dict[str, PodSet]:
    """The podsets by role."""
    return {item.name.partition("/")[2]: item for item in infer_podsets([obj], namespace="team")}


def mebibytes(obj: Object) -> tuple[int, int]:
    """What driver and executor ask for."""
    found = podsets(obj)
    return found["driver"].requests["memory"] // MI, found["executor"].requests["memory"] // MI


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        # Without a word Spark takes 1g and at least 384 MiB beside it.
        (application(), (1024 + 384, 1024 + 384)),
        (application({"memory": "512m"}, {"memory": "8g"}), (512 + 384, 8192 + 819)),
        (application({"memory": "8g"}, {"memory": "8g"}, type="Python"), (8192 + 3276, 8192 + 3276)),
        (application({"memory": "8g"}, {"memory": "8g"}, memoryOverheadFactor="0.2"), (8192 + 1638, 8192 + 1638)),
        (
            application({"memory": "2g", "memoryOverhead": "100m"}, {"memory": "2048", "memoryOverhead": "1g"}),
            (2148, 3072),
        ),
        (
            application(sparkConf={"spark.driver.memory": "3g", "spark.executor.memoryOverhead": "1"}),
            (3072 + 384, 1025),
        ),
        # What the application says itself counts more than its configuration.
        (application({"memory": "2g"}, sparkConf={"spark.driver.memory": "3g"}), (2048 + 384, 1024 + 384)),
        (application(sparkConf={"spark.executor.memoryOverheadFactor": "0.5"}, memoryOverheadFactor="0"), (1408, 1536)),
        (application(sparkConf={"spark.kubernetes.memoryOverheadFactor": "0.5"}), (1536, 1536)),
        (application(sparkConf={"spark.executor.pyspark.memory": "2g"}), (1408, 1408)),
        (application(sparkConf={"spark.executor.pyspark.memory": "2g"}, type="Python"), (1433, 1433 + 2048)),
        (
            application(sparkConf={"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": str(512 * MI)}),
            (1408, 1408 + 512),
        ),
        (application(sparkConf={"spark.memory.offHeap.size": "512m"}), (1408, 1408)),
    ],
)
def test_memory_is_the_heap_and_what_lies_beside_it(obj: Object, expected: tuple[int, int]) -> None:
    assert mebibytes(obj) == expected


def test_cores_are_requested_and_limits_are_what_is_said() -> None:
    driver = {"cores": 2, "coreRequest": "250m", "coreLimit": "1200m"}
    found = podsets(application(driver, {"cores": 4, "gpu": {"name": "nvidia.com/gpu", "quantity": 2}}))
    assert found["driver"].requests["cpu"] == 250
    assert found["driver"].limits["cpu"] == 1200
    assert (found["executor"].requests["cpu"], found["executor"].requests["nvidia.com/gpu"]) == (4000, 2)
    assert "cpu" not in found["executor"].limits
    assert found["executor"].limits["memory"] == found["executor"].requests["memory"]
    assert podsets(application(sparkConf={"spark.executor.cores": "3"}))["executor"].requests["cpu"] == 3000


@pytest.mark.parametrize(
    ("obj", "count"),
    [
        (application(), 1),
        (application(executor={"instances": 5}), 5),
        (application(sparkConf={"spark.executor.instances": "4"}), 4),
        (application(dynamicAllocation={"enabled": True}), 0),
        (application(dynamicAllocation={"enabled": True, "minExecutors": 2, "initialExecutors": 3}), 3),
        (application(executor={"instances": 6}, dynamicAllocation={"enabled": True, "initialExecutors": 3}), 6),
        (application(dynamicAllocation={"enabled": False, "initialExecutors": 3}), 1),
        (
            application(
                sparkConf={"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "2"}
            ),
            2,
        ),
    ],
)
def test_executors_are_counted_as_they_begin(obj: Object, count: int) -> None:
    assert {role: item.count for role, item in podsets(obj).items()} == {"driver": 1, "executor": count}


def test_sidecars_and_placement_rules_are_those_of_the_pods() -> None:
    sidecar = {"name": "proxy", "resources": {"requests": {"cpu": "500m"}}}
    driver = {
        "sidecars": [sidecar],
        "labels": {"team": "a"},
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]
    found = podsets(application(driver, volumes=volumes, nodeSelector={"zone": "z"}))
    spec = found["driver"].template["spec"]
    assert found["driver"].requests["cpu"] == 1500
    assert spec["nodeSelector"] == {"zone": "z", "pool": "gpu"}
    assert spec["tolerations"] == driver["tolerations"]
    assert [volume["name"] for volume in spec["volumes"]] == ["data"]
    labels = found["driver"].template["metadata"]["labels"]
    assert labels == {"team": "a", "spark-role": "driver", "sparkoperator.k8s.io/app-name": "x"}
    assert found["executor"].template["spec"]["nodeSelector"] == {"zone": "z"}


def test_a_template_keeps_what_spark_does_not_say() -> None:
    given = template(tolerations=[{"key": "a"}], nodeSelector={"zone": "z"})
    given["spec"]["containers"].append({"name": "more", "resources": {"requests": {"cpu": "2"}}})
    given["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9", "example.com/nic": "1"}}
    driver = {"template": given, "tolerations": [{"key": "b"}], "nodeSelector": {"pool": "p"}}
    use = pod_templates(application(driver), "it")[0]
    found = podsets(application(driver))["driver"]
    assert use.path == ("spec", "driver", "template")
    assert (found.requests["cpu"], found.requests["example.com/nic"]) == (3000, 1)
    assert [item["key"] for item in use.template["spec"]["tolerations"]] == ["a", "b"]
    assert use.template["spec"]["nodeSelector"] == {"zone": "z", "pool": "p"}
    # The operator replaces an affinity, and with it whatever steers the pods.
    steered = application({**driver, "affinity": {"nodeAffinity": {}}})
    assert [use.path for use in pod_templates(steered, "it")] == [None, None]


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (application({"memory": "lots"}), "spec.driver.memory"),
        (application(executor={"memoryOverhead": "1x"}), "spec.executor.memoryOverhead"),
        (application(executor={"instances": -1}), "spec.executor.instances"),
        (application(memoryOverheadFactor="much"), "spec.memoryOverheadFactor"),
        (application(memoryOverheadFactor="-1"), "spec.memoryOverheadFactor"),
        (application({"gpu": {"quantity": 1}}), "spec.driver.gpu.name"),
        (application({"sidecars": "proxy"}), "spec.driver.sidecars"),
        (application({"template": {"spec": {}}}), "spec.driver.template.spec.containers"),
        (thing("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {}}), "spec.executor"),
    ],
)
def test_what_makes_no_sense_is_named(obj: Object, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        pod_templates(obj, "SparkApplication team/x")
    assert caught.value.target == f"SparkApplication team/x: {field}"


def test_executors_wait_for_their_driver() -> None:
    assert [want.prompt for want in expected_pods(application(executor={"instances": 3}))] == [1, 0]


def test_an_application_of_a_fixed_size_wants_all_its_executors() -> None:
    status = {"applicationState": {"state": "RUNNING"}, "executorState": {"x-exec-1": "RUNNING"}}
    live = {**application(executor={"instances": 3}), "status": status}
    assert [want.now for want in expected_pods(live)] == [1, 3]


@pytest.mark.parametrize(
    "state",
    [
        "",
        "SUBMITTED",
        "RUNNING",
        "SUCCEEDING",
        "FAILING",
        "PENDING_RERUN",
        "SUBMISSION_FAILED",
        "INVALIDATING",
        "UNKNOWN",
    ],
)
def test_what_is_tried_again_has_not_ended(state: str) -> None:
    assert item_outcome({**application(), "status": {"applicationState": {"state": state}}}) is None


def test_an_application_that_is_always_begun_again_never_ends() -> None:
    assert is_finite(application())
    assert is_finite(application(restartPolicy={"type": "OnFailure"}))
    assert not is_finite(application(restartPolicy={"type": "Always"}))
