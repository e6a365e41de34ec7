# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One object of every kind that makes pods, with the statuses its operator gives it, and what is to be known of it.

The shapes are those of Kubernetes 1.36, KubeRay 1.4.2 (RayCronJob: 1.6), training-operator 1.9.3, Kubeflow Trainer 2.2,
JobSet 0.10.1, LeaderWorkerSet 0.7.0 and Spark operator 2.
"""

from __future__ import annotations

import dataclasses
import typing as t

Object = dict[str, t.Any]

BEGAN, ENDED = "2026-01-01T10:00:00Z", "2026-01-01T10:05:00Z"


@dataclasses.dataclass(frozen=True)
class KindCase:
    """What is to be known of one object; a kind that never ends has no succeeded and no failed status.

    pods are the counts of its podsets, now the pods that it wants in the running status (all of them unless told).
    progress is a status in which it wants fewer than when it began, wanted then.
    """

    object: Object
    pods: dict[str, int] | None
    running: Object
    succeeded: Object | None = None
    failed: Object | None = None
    message: str = ""
    progress: Object | None = None
    left: dict[str, int] | None = None
    deadline: float | None = None
    done_word: str | None = None
    ttl: tuple[str, ...] | None = None
    owners: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Group and kind."""
        return self.object["apiVersion"].rpartition("/")[0], self.object["kind"]

    def live(self, status: Object) -> Object:
        """The object as a server shows it with this status."""
        metadata = {**self.object["metadata"], "uid": "u", "generation": 1, "creationTimestamp": BEGAN}
        return {**self.object, "metadata": metadata, "status": status}


def thing(api_version: str, kind: str, spec: Object) -> Object:
    """An object named x."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "team"}, "spec": spec}


def template(**spec: t.Any) -> Object:
    """A pod template of one container."""
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"metadata": {}, "spec": {"containers": [container], **spec}}


def condition(type_: str, status: str = "True", message: str = "") -> Object:
    """A condition as controllers write them."""
    return {
        "type": type_,
        "status": status,
        "reason": f"{type_}Reason",
        "message": message,
        "lastTransitionTime": ENDED,
    }


def told(*conditions: Object, **fields: t.Any) -> Object:
    """A status with conditions."""
    return {"conditions": list(conditions), **fields}


BACK_OFF = "Job has reached the specified backoff limit"
JOB = {"parallelism": 2, "completions": 3, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}

POD = KindCase(
    thing("v1", "Pod", {**template()["spec"], "restartPolicy": "Never", "activeDeadlineSeconds": 50}),
    {"x": 1},
    running=told(condition("Ready"), condition("PodScheduled"), phase="Running", startTime=BEGAN, podIP="10.0.0.1"),
    succeeded=told(condition("Ready", "False"), phase="Succeeded", startTime=BEGAN),
    failed=told(condition("Ready", "False"), phase="Failed", reason="Evicted", message="The node was low on memory."),
    message="The node was low on memory.",
    deadline=50.0,
)
REPLICA_STATUS = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1}
REPLICATED = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template()}
CORE = (
    POD,
    KindCase(thing("v1", "ReplicationController", REPLICATED), {"x": 3}, running=REPLICA_STATUS),
    KindCase(thing("apps/v1", "ReplicaSet", REPLICATED), {"x": 3}, running=REPLICA_STATUS),
    KindCase(
        thing("apps/v1", "Deployment", {**REPLICATED, "strategy": {"type": "RollingUpdate"}}),
        {"x": 3},
        running=told(condition("Available"), condition("Progressing"), **REPLICA_STATUS),
    ),
    KindCase(
        thing("apps/v1", "StatefulSet", {**REPLICATED, "serviceName": "x", "podManagementPolicy": "OrderedReady"}),
        {"x": 3},
        running={**REPLICA_STATUS, "currentRevision": "x-1", "collisionCount": 0},
    ),
    KindCase(
        thing("apps/v1", "DaemonSet", {"selector": {"matchLabels": {"app": "x"}}, "template": template()}),
        None,
        running={"currentNumberScheduled": 3, "desiredNumberScheduled": 3, "numberReady": 3},
    ),
)
BATCH = (
    KindCase(
        thing("batch/v1", "Job", {**JOB, "activeDeadlineSeconds": 600, "template": template(restartPolicy="Never")}),
        {"x": 2},
        running={"active": 2, "ready": 2, "startTime": BEGAN, "uncountedTerminatedPods": {}},
        succeeded=told(condition("SuccessCriteriaMet"), condition("Complete"), succeeded=3, completionTime=ENDED),
        failed=told(condition("FailureTarget"), condition("Failed", message=BACK_OFF), failed=7, startTime=BEGAN),
        message=BACK_OFF,
        progress={"active": 1, "ready": 1, "succeeded": 2, "startTime": BEGAN},
        left={"x": 1},
        deadline=600.0,
        done_word="complete",
        ttl=("spec", "ttlSecondsAfterFinished"),
    ),
    KindCase(
        thing(
            "batch/v1", "CronJob", {"schedule": "0 2 * * *", "jobTemplate": {"spec": {**JOB, "template": template()}}}
        ),
        {"x": 2},
        running={"active": [{"kind": "Job", "name": "x-1"}], "lastScheduleTime": BEGAN},
    ),
)


def job_status(name: str, **counts: int) -> Object:
    """What JobSet and Trainer tell of the jobs of one name."""
    return {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0, **counts}


REPLICATED_JOBS = [
    {"name": name, "replicas": n, "template": {"spec": {"completions": c, "parallelism": c, "template": template()}}}
    for name, n, c in (("driver", 1, 1), ("worker", 2, 3))
]
JOBS_FAILED = "jobset failed due to one or more job failures"
DRIVER = job_status("driver", active=1)
JOBSET = (
    KindCase(
        thing(
            "jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": REPLICATED_JOBS, "network": {}, "suspend": False}
        ),
        {"x/driver": 1, "x/worker": 6},
        running={
            "replicatedJobsStatus": [DRIVER, job_status("worker", active=2)],
            "restarts": 0,
        },
        succeeded=told(condition("Completed", message="jobset completed"), terminalState="Completed", restarts=0),
        failed=told(condition("Failed", message=JOBS_FAILED), terminalState="Failed"),
        message=JOBS_FAILED,
        progress={"replicatedJobsStatus": [DRIVER, job_status("worker", active=1, succeeded=1)]},
        left={"x/driver": 1, "x/worker": 3},
        done_word="complete",
        ttl=("spec", "ttlSecondsAfterFinished"),
    ),
    KindCase(
        thing(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {
                "replicas": 2,
                "startupPolicy": "LeaderCreated",
                "leaderWorkerTemplate": {"size": 3, "leaderTemplate": template(), "workerTemplate": template()},
            },
        ),
        {"x/leader": 2, "x/worker": 4},
        running=told(condition("Available"), condition("Progressing", "False"), replicas=2, readyReplicas=2),
    ),
)


def training_job(kind: str, field: str, **replicas: int) -> KindCase:
    """A job of training-operator; the last replica type is the one that ends by and by."""
    specs = {role: {"replicas": n, "restartPolicy": "Never", "template": template()} for role, n in replicas.items()}
    policy = {"cleanPodPolicy": "None", "activeDeadlineSeconds": 900, "suspend": False}
    pods = {f"x/{role.lower()}": count for role, count in replicas.items()}
    last = list(replicas)[-1]
    running = {role: {"active": count, "selector": "s"} for role, count in replicas.items()}
    message = f"{kind} x is failed because 1 {last} replica(s) failed."
    return KindCase(
        thing("kubeflow.org/v1", kind, {field: specs, "runPolicy": policy}),
        pods,
        running=told(condition("Created"), condition("Running"), replicaStatuses=running, startTime=BEGAN),
        succeeded=told(condition("Running", "False"), condition("Succeeded"), replicaStatuses={}, completionTime=ENDED),
        failed=told(condition("Running", "False"), condition("Failed", message=message), completionTime=ENDED),
        message=message,
        progress=told(condition("Running"), replicaStatuses={**running, last: {"active": 0, "succeeded": 1}}),
        left={**pods, f"x/{last.lower()}": replicas[last] - 1},
        deadline=900.0,
        done_word="succeeded",
        ttl=("spec", "runPolicy", "ttlSecondsAfterFinished"),
    )


KUBEFLOW = (
    training_job("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=2),
    training_job("TFJob", "tfReplicaSpecs", Chief=1, PS=1, Worker=2, Evaluator=1),
    training_job("XGBoostJob", "xgbReplicaSpecs", Master=1, Worker=2),
    training_job("PaddleJob", "paddleReplicaSpecs", Master=1, Worker=2),
    training_job("JAXJob", "jaxReplicaSpecs", Worker=2),
    training_job("MPIJob", "mpiReplicaSpecs", Launcher=1, Worker=2),
)
NODES = {"image": "train", "numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}}}
TRAINER = (
    KindCase(
        thing(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            {
                "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch"},
                "trainer": NODES,
                "suspend": False,
                "activeDeadlineSeconds": 700,
            },
        ),
        {"x/node": 3},
        running={"jobsStatus": [job_status("node", active=1)]},
        succeeded=told(condition("Complete", message="jobset completed"), jobsStatus=[job_status("node", succeeded=1)]),
        failed=told(condition("Failed", message="deadline exceeded"), jobsStatus=[job_status("node", failed=1)]),
        message="deadline exceeded",
        progress={"jobsStatus": [job_status("node", succeeded=1)]},
        left={"x/node": 0},
        deadline=700.0,
        done_word="complete",
        owners=(("jobset.x-k8s.io/v1alpha2", "JobSet"), ("batch/v1", "Job")),
    ),
)
RAY_CLUSTER = {
    "rayVersion": "2.46.0",
    "enableInTreeAutoscaling": True,
    "headGroupSpec": {"rayStartParams": {}, "template": template()},
    "workerGroupSpecs": [
        {
            "groupName": "small",
            "replicas": 3,
            "minReplicas": 0,
            "maxReplicas": 5,
            "rayStartParams": {},
            "template": template(),
        }
    ],
}
RAY_JOB = {"entrypoint": "python train.py", "submissionMode": "K8sJobMode", "rayClusterSpec": RAY_CLUSTER}
RAY_PODS = {"x/head": 1, "x/small": 3}
RAY = (
    KindCase(
        thing("ray.io/v1", "RayCluster", RAY_CLUSTER),
        RAY_PODS,
        running=told(
            condition("HeadPodReady"), condition("RayClusterProvisioned"), state="ready", desiredWorkerReplicas=3
        ),
    ),
    KindCase(
        thing("ray.io/v1", "RayJob", {**RAY_JOB, "activeDeadlineSeconds": 300, "shutdownAfterJobFinishes": True}),
        {**RAY_PODS, "x/submitter": 1},
        running={
            "jobId": "x-1",
            "jobStatus": "RUNNING",
            "jobDeploymentStatus": "Running",
            "rayClusterStatus": {"state": "ready", "desiredWorkerReplicas": 3},
        },
        succeeded={"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "endTime": ENDED},
        failed={
            "jobStatus": "FAILED",
            "jobDeploymentStatus": "Failed",
            "reason": "AppFailed",
            "message": "exit code 1",
        },
        message="exit code 1",
        progress={
            "jobStatus": "RUNNING",
            "jobDeploymentStatus": "Running",
            "rayClusterStatus": {"state": "ready", "desiredWorkerReplicas": 1},
        },
        left={"x/head": 1, "x/small": 1, "x/submitter": 1},
        deadline=300.0,
        ttl=("spec", "ttlSecondsAfterFinished"),
        owners=(("batch/v1", "Job"),),
    ),
    KindCase(
        thing("ray.io/v1", "RayService", {"serveConfigV2": "", "rayClusterConfig": RAY_CLUSTER}),
        RAY_PODS,
        running=told(condition("Ready"), serviceStatus="Running", numServeEndpoints=1),
    ),
    KindCase(
        thing("ray.io/v1", "RayCronJob", {"schedule": "0 2 * * *", "timeZone": "Etc/UTC", "jobTemplate": RAY_JOB}),
        {**RAY_PODS, "x/submitter": 1},
        running={"lastScheduleTime": BEGAN},
        owners=(("ray.io/v1", "RayJob"), ("batch/v1", "Job")),
    ),
)


def spark_status(state: str, error: str = "", **executors: str) -> Object:
    """A status as the Spark operator writes it."""
    named = {f"x-exec-{number}": told for number, told in executors.items()}
    state_of = {"state": state, **({"errorMessage": error} if error else {})}
    return {"applicationState": state_of, "driverInfo": {"podName": "x-driver"}, "executorState": named}


SPARK = (
    KindCase(
        thing(
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {
                "type": "Scala",
                "mode": "cluster",
                "sparkVersion": "3.5.5",
                "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
                "restartPolicy": {"type": "Never"},
                "dynamicAllocation": {"enabled": True, "initialExecutors": 3, "minExecutors": 1, "maxExecutors": 8},
                "driver": {"cores": 1, "memory": "512m", "serviceAccount": "spark"},
                "executor": {"cores": 2, "memory": "4g"},
            },
        ),
        {"x/driver": 1, "x/executor": 3},
        running=spark_status("RUNNING", a="RUNNING", b="RUNNING", c="PENDING"),
        succeeded=spark_status("COMPLETED", a="COMPLETED", b="COMPLETED", c="COMPLETED"),
        failed=spark_status("FAILED", "driver container failed with ExitCode: 1", a="FAILED"),
        message="driver container failed with ExitCode: 1",
        progress=spark_status("RUNNING", a="RUNNING", b="COMPLETED", c="COMPLETED"),
        left={"x/driver": 1, "x/executor": 1},
        ttl=("spec", "timeToLiveSeconds"),
        owners=(("v1", "Pod"),),
    ),
)
WRAPPED_JOB = BATCH[0].object
WRAPPER = (
    KindCase({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [WRAPPED_JOB]}, {"x": 2}, running={}),
    KindCase(
        thing(
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            {"suspend": False, "components": [{"podSets": [], "template": WRAPPED_JOB}]},
        ),
        {"x": 2},
        running=told(condition("QuotaReserved"), condition("PodsReady"), phase="Running"),
    ),
    KindCase(
        thing(
            "mcad.ibm.com/v1beta1",
            "AppWrapper",
            {"resources": {"GenericItems": [{"replicas": 1, "generictemplate": WRAPPED_JOB}]}},
        ),
        {"x": 2},
        running={"state": "Running", "canrun": True, "running": 2},
    ),
)

KIND_CASES = (*CORE, *BATCH, *JOBSET, *KUBEFLOW, *TRAINER, *RAY, *SPARK, *WRAPPER)
