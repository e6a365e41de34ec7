# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests of all shapes that Amun's users kept: the image holds what Amun's would, and the pods run as Amun's did."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import run_bundles, run_job
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import checked_identifier, plan_run
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import JobContext
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import build_context
from ansible_collections.muster.kube.tests.support.amun_requests import COUNT, Request, Zoo
from ansible_collections.muster.kube.tests.support.image_contents import Step, image_contents
from ansible_collections.muster.kube.tests.support.inspector import terms_of

CHECKSUM = "sha256:" + "0" * 64
REQUESTS = Zoo().requests()
WITH_SCRIPT = [request for request in REQUESTS if "script" in request]
HOME = "/home/amun"


def terms(request: Request) -> t.Any:
    """What a task with this request, and no more than it needs, asks for."""
    checksum = CHECKSUM if str(request.get("script")).startswith("https://") else None
    return terms_of(
        {"specification": request, "build": {"repository": "registry.example.com/zoo"}, "checksum": checksum}
    )


def number(request: Request) -> str:
    """How a request is called in the list of tests."""
    return f"{REQUESTS.index(request)}-{request.get('identifier', 'none')}"


def pinned(request: Request) -> dict[str, tuple[str, list[str]]]:
    """For each package of a lock its line, and the URLs it may come from."""
    lock = request.get("python", {}).get("requirements_locked", {"_meta": {"sources": []}, "default": {}})
    urls = {source["name"]: source["url"] for source in lock["_meta"]["sources"]}
    return {
        name: (
            f"{name}{entry['version']} --hash={entry['hashes'][0]}",
            [urls[entry["index"]]] if "index" in entry else list(urls.values()),
        )
        for name, entry in lock["default"].items()
    }


def of_step(steps: list[Step]) -> dict[str, tuple[str, list[str]]]:
    """The same of steps that were read back."""
    return {re.split(r"[=;\[ ]", line)[0]: (line, step.indexes) for step in steps for line in step.lines}


def test_there_are_as_many_as_there_were_and_all_differ():
    assert len(REQUESTS) == COUNT
    assert len({json.dumps(request, sort_keys=True) for request in REQUESTS}) == COUNT
    assert {key for request in REQUESTS for key in request} >= {
        *("base", "identifier", "packages", "python_packages", "package_manager", "python", "environment", "files"),
        *("script", "update", "upgrade_pip", "batch_size", "build", "run", "send_messages", "force_sync", "@created"),
    }


@pytest.mark.parametrize("request_", REQUESTS, ids=number)
def test_the_image_holds_what_amun_s_would(request_):
    found = image_contents(build_context(terms(request_).stack.stack))
    assert (found.base, found.user, found.workdir) == (request_["base"], "1042", HOME)
    assert found.environment == {entry["name"]: entry["value"] for entry in request_.get("environment") or ()}
    assert (found.native, found.update) == (request_.get("packages") or [], request_.get("update", False))
    assert found.upgrade_pip == request_.get("upgrade_pip", False)
    wanted = {entry["path"]: (entry["content"].encode(), "0644") for entry in request_.get("files") or ()}
    assert found.files == wanted
    assert of_step([step for step in found.python if step.hashed]) == pinned(request_)


@pytest.mark.parametrize("request_", REQUESTS, ids=number)
def test_python_packages_are_added_unless_the_lock_has_another_release(request_):
    """Amun's script saw the environment of the lock alone."""
    task = terms(request_)
    found = image_contents(build_context(task.stack.stack))
    lines = [line for step in found.python if not step.hashed for line in step.lines]
    asked = request_.get("python_packages") or []
    locked = [line for line in asked if line.partition("==")[0].lower() in pinned(request_)]
    assert lines == [line for line in asked if line not in locked]
    assert [name for name in task.ignored if name.startswith("python_packages")] == [
        f"python_packages: {line}" for line in locked
    ]


@pytest.mark.parametrize("request_", WITH_SCRIPT, ids=number)
def test_the_pods_run_as_amun_s_did(request_):
    task = terms(request_)
    plan = plan_run(task, b"#!/bin/sh\n", "registry.example.com/zoo@sha256:" + "1" * 64)
    bundles = run_bundles(plan.spec, "collector")
    context = JobContext("inspection-x", {}, {bundle.key: bundle.key for bundle in bundles})
    job = run_job(plan.spec, plan.pod_options(None), bundles, context)["spec"]
    pod = job["template"]["spec"]
    [container] = pod["containers"]
    assert job["completions"] == request_.get("batch_size", 1)
    assert job["parallelism"] == min(request_.get("parallelism", 1), job["completions"])
    assert container["securityContext"]["runAsUser"] == 1042
    told = {entry["name"]: entry.get("value") for entry in container["env"]}
    own = {entry["name"]: entry["value"] for entry in request_.get("environment") or ()}
    assert told["MUSTER_WORKDIR"] == HOME
    # A home that the request itself chose is that of the image.
    assert told.get("HOME") == (None if "HOME" in own else HOME)
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert "readOnly" not in mounts[HOME]
    inside = [entry["path"] for entry in request_.get("files") or () if entry["path"].startswith(f"{HOME}/")]
    assert [path for path in mounts if path.startswith(f"{HOME}/") and path != f"{HOME}/hwinfo"] == inside
    amounts = (request_.get("run") or {}).get("requests") or {}
    asked = {name: amount for name, amount in amounts.items() if name != "hardware"}
    assert container["resources"].get("limits", {}) == asked
    assert ("affinity" in pod) == ("hardware" in amounts)
    for bundle in bundles:
        for path in inside:
            [entry] = [item for item in plan.spec.files if item.path == path]
            assert entry.content in bundle.files.values()


def test_identifiers_of_requests_become_such_as_names_can_hold():
    identifiers = {request["identifier"]: terms(request).identifier for request in REQUESTS if "identifier" in request}
    assert all(checked_identifier(found) for found in identifiers.values())
    assert len(set(identifiers.values())) == len(identifiers)
    assert identifiers["tensorflow-matmul-1"] == "tensorflow-matmul-1"
