# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever a task says, a module answers: with a result, or with a failure that names what was wrong.

The faces run as they are, up to the first request to a cluster, which fails in the usual way. Tasks are right but for
one to three of their options, or parts of those.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import random
import types
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Unreachable
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, unforeseen
from ansible_collections.muster.kube.plugins.modules import (
    checkpoint,
    component,
    component_info,
    dispatch,
    elastic_balance,
    elastic_job,
    elastic_job_info,
    fit_info,
    gang,
    gang_info,
    image_build,
    image_build_info,
    inspection,
    inspection_info,
    local_cluster,
    local_cluster_info,
    quota,
    quota_info,
    report,
)
from ansible_collections.muster.kube.plugins.plugin_utils._checked import validated
from ansible_collections.muster.kube.tests.support.inspection_cases import item
from ansible_collections.muster.kube.tests.support.module_call import call_module
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.random_values import damage, encodable, odd_value
from ansible_collections.muster.kube.tests.support.report_cases import SECTION_TEMPLATES, TEMPLATE, scene

SEED = int(os.environ.get("MUSTER_SEED", "1"))
TASKS = examples(1_000)
FACES = (
    *(elastic_job, elastic_job_info),
    *(checkpoint, component, component_info, dispatch, elastic_balance, fit_info, gang, gang_info),
    *(image_build, image_build_info),
    *(inspection, inspection_info, local_cluster, local_cluster_info, quota, quota_info, report),
)
POD = {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "labels": {"a": "b"}},
    "spec": {"parallelism": 2, "completions": 2, "template": {"spec": {**POD, "nodeSelector": {"zone": "a"}}}},
}
GPU_POD = {"containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
GPU_JOB = {**JOB, "spec": {"template": {"spec": GPU_POD}}}
RAY = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "r"},
    "spec": {
        "headGroupSpec": {"template": {"spec": POD}},
        "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": {"spec": POD}}],
    },
}
WRAPPER = {
    "apiVersion": "workload.codeflare.dev/v1beta1",
    "kind": "AppWrapper",
    "metadata": {"name": "w", "namespace": "default"},
    "spec": {"resources": {"GenericItems": [{"replicas": 1, "completionstatus": "Complete", "generictemplate": JOB}]}},
}
PODSETS = [
    {"name": "p", "count": 2, "requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "labels": {"a": "b"}, "spec": POD}
]
SETTINGS = {
    **{"namespace": "default", "queue": "q", "priority": 3, "priority_slope": 0.5, "min_available": 1},
    "requeue": {"time": "1m", "growth": "exponential", "max_time": "1h", "limit": 3, "pause": "10s"},
    "completion": [{"item": 0, "type": "Complete", "status": "True"}, {"item": 0, "jmespath": "status.x"}],
    **{"exit_codes": {"terminal": [1], "retryable": [2]}, "max_run_time": "1h", "ttl": "1d", "labels": {"a": "b"}},
}
STACK = {
    "base": "docker.io/library/debian:13",
    "packages": ["git"],
    "python": {"requirements": "numpy==2.0"},
    "environment": {"A": "b"},
    "files": [{"path": "/x", "content": "y", "mode": "0644"}],
}
BUILD = {
    **{"engine": "job", "tier": "baseline", "requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}, "cache": "r/c"},
    **{"hardware": {"arch": "amd64"}, "tolerations": [{"key": "a"}], "insecure_registries": ["r:5000"]},
    **{"service_account": "s", "pull_secret": "p", "push_secret": "q", "timeout": "1h", "start_timeout": "5m"},
}
HARDWARE = {
    "arch": "amd64",
    "cpu": {"vendor": "AMD", "family": 25, "model": 1, "flags": ["avx"], "level": "v3"},
    "gpu": {"vendor": "nvidia", "product": ["Tesla-T4"], "count": 1, "memory": "16Gi"},
    "node_selector": {"a": "b"},
}
RUN = {
    **{"script": "true", "interpreter": "bash", "args": ["a"], "env": {"A": "b"}, "workdir": "/w"},
    "files": [{"path": "/d/x", "content": "y", "mode": "0644"}, {"path": "/d/z", "content_base64": "eA=="}],
    **{"repetitions": 3, "parallelism": 2, "warmup": 1, "allowed_failures": 1, "output_bytes": 65536},
    "run": {"requests": {"cpu": "1", "memory": "1Gi"}, "hardware": HARDWARE},
    **{"timeout": "1h", "start_timeout": "5m", "service_account": "s", "pull_secrets": ["p"], "ttl": "1d"},
    **{"tolerations": [{"key": "a", "operator": "Exists"}], "priority_class": "p", "runtime_class": "r"},
    "security": {"run_as_user": 1, "capabilities": ["SYS_NICE"], "seccomp_profile": "RuntimeDefault"},
    "volumes": [
        {"path": "/data", "persistent_volume_claim": "c", "sub_path": "a/b", "read_only": False},
        {"path": "/etc/word", "secret": "s", "key": "k"},
        {"path": "/etc/settings", "config_map": "m"},
        {"path": "/scratch", "empty_dir": {"size": "1Gi"}},
    ],
    **{"labels": {"a": "b"}, "identifier": "mine", "collector": "#!/bin/sh\n"},
}
MATRIX = {
    "axes": {"base": {"a": {"image": "i:2"}, "b": None}, "threads": {"1": {"env": {"T": "1"}}, "2": {"warmup": 4}}},
    "exclude": [{"base": "a", "threads": "2"}],
    "include": [{"base": "c", "options": {"image": "i:3"}}, {"threads": "1", "options": {"args": ["x"]}}],
    "fail_fast": True,
}
AMUN = {
    "base": "debian:13",
    "identifier": "x",
    "packages": ["git"],
    "build": {"requests": {"cpu": "1", "memory": "1Gi"}},
    "run": {"requests": {"cpu": "1", "memory": "1Gi", "hardware": {"cpu_family": 6, "cpu_model": 1, "processor": "x"}}},
    "script": "#!/bin/sh\ntrue\n",
    "batch_size": 2,
}
GANG_RESULT = {
    **{"name": "g", "namespace": "n", "phase": "running", "queue": "q", "priority": 0, "uid": "u"},
    "transitions": [{"phase": "queued", "time": "2026-01-01T00:00:00Z", "reason": "submitted"}],
    "decisions": [{"time": "2026-01-01T00:00:01Z", "action": "wait", "reason": "room", "gang": "g", "namespace": "n"}],
}
INSPECTION_RESULT = {"label": "a", "inspection_id": "i", "runs": [item(0, 1.0), item(1, 2.0)], "phase": "Succeeded"}
NODE = {
    **{"name": "n", "count": 2, "cpu": "8", "memory": "8Gi", "pods": 10, "extended": {"nvidia.com/gpu": 8}},
    **{"labels": {"a": "b"}, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
}
LEASE = {"namespace": "default", "name": "l", "seconds": 15}
FLAVORS = [{"name": "f", "node_labels": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]}]
QUEUES = [
    {"name": "root", "capacity": {"f": {"cpu": 4}}},
    {
        **{"name": "a", "parent": "root", "nominal": {"cpu": "500m"}, "lending_limit": {"cpu": "1m"}, "weight": "0.5"},
        **{"namespaces": ["n"], "selector": {"matchLabels": {"a": "b"}}, "default": True, "reclaim": "never"},
        **{"user_limits": {"running": 1, "resources": {"cpu": 1}}, "budget": {"hours": {"cpu": 5}}, "stop": "hold"},
    },
]

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {"group": "example.com", "names": {"kind": "Widget"}, "versions": [{"name": "v1", "served": True}]},
}

COMPONENT = {
    **{"name": "c", "version": "1.2", "namespace": "n", "definition": [CRD, JOB], "resources": [WRAPPER]},
    **{"depends_on": ["b"], "nodes": {"labels": ["l"], "resources": ["r"]}},
    **{"condition": {"api_version": "v1", "kind": "K", "name": "n", "namespace": "n", "type": "T", "status": "True"}},
    "smoke": {"definition": [RAY], "condition": "T"},
}

GOOD: dict[str, list[dict[str, t.Any]]] = {
    "component": [
        {"name": "c", "definition": [CRD, JOB], "prune": False, "wait": True, "wait_timeout": "1m"},
        {"name": "c", "definition": {"kind": "List", "items": [JOB]}, "state": "absent"},
        {"components": [COMPONENT], "wait_for": "nodes", "record_namespace": "r"},
        {**COMPONENT, "source": "manifest", "state": "absent", "with_resources": True, "remove_definitions": True},
    ],
    "component_info": [{"names": ["c"], "components": [COMPONENT]}],
    "dispatch": [
        {
            **{"duration": "1m", "policy": "reserve", "reserve_after": "1h", "hold": "hard", "lease": LEASE},
            **{"namespaces": ["a"], "max_starts": 3, "bind_timeout": "60", "start_timeout": "5m", "decision_log": "/x"},
            **{
                "lease_timeout": "1m",
                "adopt": True,
                "keep_finished": 5,
                "keep_finished_for": "7d",
                "accrue_seconds": "5m",
            },
        }
    ],
    "elastic_balance": [
        {
            **{
                "policy": "max_min",
                "worth": 2.5,
                "near_end": 0.1,
                "most_resizes": -1,
                "patience": "2h",
                "lease": LEASE,
            },
            **{"namespaces": ["a"], "wait": False, "wait_timeout": "1m"},
        }
    ],
    "elastic_job": [
        {
            **{"definition": GPU_JOB, "name": "e", **SETTINGS, "lease": LEASE, "wait_for": "running", "size": "auto"},
            **{
                "range": {"min": 1, "max": 4, "step": 1, "resource": "nvidia.com/gpu", "podset": "j", "axis": "per_pod"}
            },
            **{"timing": "on_sigterm", "cooldown": "1m", "restart_cost": "2m", "checkpoint_timeout": "5m"},
            "profile": {"1": 1.0, "4": 2.5},
            "global_batch": {"value": 12, "per_device_env": "B", "accumulation_env": "A"},
        },
        {"jobs": [{"definition": GPU_JOB, "range": {"sizes": [1, 2]}, "size": 2}], "state": "suspended"},
        {"name": "e", "state": "absent"},
    ],
    "elastic_job_info": [
        {"name": "e", "namespace": "n", "queue": "q", "state": ["queued"], "label_selectors": ["a=b"], "log_lines": 3}
    ],
    "fit_info": [
        {"definition": [JOB, RAY], "name": "g", "namespace": "default", "cumulative": True},
        {"gangs": [{"definition": WRAPPER}, {"podsets": PODSETS, "name": "p"}, {"definition": json.dumps(JOB)}]},
    ],
    "gang": [
        {"definition": [JOB, RAY], "name": "g", **SETTINGS, "lease": LEASE, "wait_for": "running", "wait_sleep": "1"},
        {"gangs": [{"definition": WRAPPER}, {"definition": JOB, "podsets": PODSETS, **SETTINGS}], "state": "suspended"},
        {"name": "g", "state": "absent"},
    ],
    "gang_info": [
        {"name": "g", "namespace": "n", "queue": "q", "state": ["queued"], "label_selectors": ["a=b"], "log_lines": 3}
    ],
    "image_build": [
        {
            "stack": STACK,
            "image": "registry.example.com/x",
            "tag": "t",
            **BUILD,
            "ttl": "1d",
            "build_script": "#!/bin/sh",
        },
        {"stack": STACK, "image": "registry.example.com/x", "context_dest": "/none/context"},
        {"state": "absent", "name": "b"},
    ],
    "image_build_info": [{"namespace": "n", "name": "b", "spec_hash": "h", "image": "i", "label_selectors": ["a"]}],
    "inspection": [
        {"image": "i:1", **RUN},
        {"stack": STACK, "build": {**BUILD, "repository": "registry.example.com/x"}, **RUN, "build_script": "x"},
        {"specification": AMUN, "build": {"repository": "registry.example.com/x"}, "collector": "x"},
        {"image": "i:1", **RUN, "matrix": MATRIX},
        {"state": "cancelled", "inspection_id": "i", "identifier": "mine"},
    ],
    "inspection_info": [
        {
            "namespace": "n",
            "inspection_id": "i",
            "label_selectors": ["a"],
            "phase": ["Failed"],
            "limit": 3,
            "log_bytes": 9,
        }
    ],
    "local_cluster": [
        {
            **{"name": "c", "nodes": [NODE, {"name": "r", "real": True}], "registry": True, "operators": ["kuberay"]},
            **{"feature_gates": {"A": True}, "runtime_config": {"b/v1": "yes"}, "wait_timeout": "5m", "cache": "/none"},
            "component_flags": {"kube-apiserver": {"v": 3}},
            "audit_log": True,
            "services": True,
        }
    ],
    "local_cluster_info": [{"name": "c", "cache": "/none"}],
    "checkpoint": [
        {"name": "g", "namespace": "n", "step": 3, "total_steps": 9, "size": 2, "saved": True, "completed": True},
        {"name": "g", "step": 3, "time": "2026-01-01T00:00:00Z"},
    ],
    "report": [
        {
            **{"dest": "/none/page.html", "title": "T", "template": TEMPLATE.read_text()},
            "section_templates": SECTION_TEMPLATES,
            "sections": [
                {"type": "gang_timeline", "title": "a", "gangs": [GANG_RESULT], "as_of": "2026-01-01T00:00:09Z"},
                scene(),
                {
                    **{"type": "inspections", "title": "b", "inspections": [INSPECTION_RESULT]},
                    "metrics": [{"metric": "wall_seconds", "threshold": 5}],
                },
            ],
        }
    ],
    "quota": [
        {
            **{"queues": QUEUES, "flavors": FLAVORS, "over_capacity": "warn", "lease": LEASE, "tree": "t"},
            "settings": {"fair": "usage", "half_life": "1d", "max_evictions": 3, "prices": {"cpu": "0.5"}},
        },
        {"state": "absent", "tree": "t"},
    ],
    "quota_info": [
        {"tree": "t", "lease": LEASE},
        {"gang": {"name": "g", "namespace": "n"}},
        {"podsets": [{"name": "w", "count": 2, "requests": {"cpu": "1"}}], "namespace": "n", "queue": "q"},
        {"user": "u", "queue": "q", "namespace": "n"},
    ],
}
KINDS = ("Job", "RayCluster", "AppWrapper", "podset", "completion", "objects[", "none of its objects")
AUTH = {"host": "https://127.0.0.1:9", "api_key": "sesame", "context": "c", "kubeconfig": {"users": []}, "proxy": "x"}


def declared(face: types.ModuleType) -> types.ModuleType:
    """The file that declares the face of a module."""
    found = importlib.import_module(face.FACE.work.__module__)
    assert found.FACE is face.FACE
    return found


def nobody_there(*_args: t.Any, **_more: t.Any) -> t.NoReturn:
    raise Unreachable("reach", "the cluster", "nobody answers")


@pytest.fixture
def faces(monkeypatch, tmp_path):
    """The modules without a cluster, without programs to start and without a network."""
    for face in FACES:
        if hasattr(declared(face), "connect"):
            monkeypatch.setattr(declared(face), "connect", nobody_there)
    monkeypatch.setattr(
        declared(local_cluster), "run", lambda request, report: {"changed": False, "name": request.spec.name}
    )
    fetchless = functools.partial(declared(inspection).run_inspection, fetch=nobody_there)
    monkeypatch.setattr(declared(inspection), "run_inspection", fetchless)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def drawn_task(chance: random.Random, name: str) -> tuple[dict[str, t.Any], list[str]]:
    """Options of a task, and the names of those that are wrong, with the names of their parts."""
    options: dict[str, t.Any] = dict(chance.choice(GOOD[name]))
    wrong: list[str] = []
    for _round in range(chance.choice((1, 1, 1, 2, 3))):
        if chance.random() < 0.15:
            key = chance.choice(sorted(AUTH))
            options[key] = odd_value(chance) if chance.random() < 0.7 else AUTH[key]
            wrong.append(key)
        elif options:
            options, path = damage(chance, options)
            wrong += [str(key) for key in path]
    return options, wrong


@pytest.mark.parametrize("name", GOOD)
def test_tasks_that_are_changed_are_right_before(faces, monkeypatch, name):
    (face,) = [face for face in FACES if face.__name__.endswith(f".{name}")]
    for options in GOOD[name]:
        answered = call_module(monkeypatch, face, {**options, "_ansible_check_mode": True}).result
        assert not answered.get("failed") or "nobody answers" in answered["msg"], (answered, options)


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__.rpartition(".")[2])
def test_any_options_get_an_answer(faces, face):
    name = face.__name__.rpartition(".")[2]
    chance = random.Random(f"{SEED} {name}")
    problems: dict[str, str] = {}
    for number in range(TASKS // len(FACES) + 1):
        options, wrong = drawn_task(chance, name)
        if problem := trouble(face, options, wrong):
            problems.setdefault(problem, f"task {number} of seed {SEED}: {json.dumps(options)[:2000]}")
    assert not problems, "\n".join(f"{problem}\n    {shown}" for problem, shown in problems.items())


def accepted(face: types.ModuleType) -> Face[t.Any]:
    """The face by which the action plugin looks at options before the module sees them."""
    action = importlib.import_module(face.__name__.replace(".modules.", ".action.")).ActionModule
    return t.cast("Face[t.Any]", action.face)


def trouble(face: types.ModuleType, options: dict[str, t.Any], wrong: list[str]) -> str | None:
    """What is wrong with the answer; None when it is a result or a failure that names what was wrong."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            validated(accepted(face), encodable(options))
            answered = call_module(patch, face, {**encodable(options), "_ansible_check_mode": True}).result
            json.dumps(answered).encode()
        except BadInput as error:
            answered = error.as_result()
        except Exception as error:  # noqa: BLE001  (any other error is what is looked for)
            return unforeseen(error)
    # What Ansible finds by itself is told in its own words; objects are called by their kind, fields of an Amun request
    # by the option that they become, and one without a request lacks its stack.
    known = (
        *wrong,
        *(KINDS if "definition" in wrong else ()),
        *(("Cannot read /",) if "dest" in wrong else ()),
        *(("repetitions",) if "batch_size" in wrong else ()),
        *(("without a stack",) if "specification" in wrong else ()),
        "nobody answers",
        "/clusters/",
    )
    if "error" in answered and not any(part in answered["msg"] for part in known if part):
        return f"nothing of {wrong[:9]} is named in: {answered['msg']}"
    return None
