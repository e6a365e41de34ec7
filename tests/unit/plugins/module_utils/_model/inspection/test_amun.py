# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Amun requests: every field is translated or named as ignored, nothing unknown passes."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.amun import from_amun
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import CpuAsk, hardware_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

CHECKSUM = "sha256:" + "0" * 64
PIPFILE = {
    "source": [{"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": True}],
    "packages": {"numpy": "*"},
    "dev-packages": {},
    "requires": {"python_version": "3.11"},
}
LOCK = {
    "_meta": {"hash": {"sha256": "1" * 64}, "pipfile-spec": 6, "requires": {}, "sources": PIPFILE["source"]},
    "default": {"numpy": {"hashes": ["sha256:" + "2" * 64], "index": "pypi", "version": "==2.0.0"}},
    "develop": {},
}
HARDWARE = {"cpu_family": 6, "cpu_model": 85, "processor": "Xeon-Gold-6142", "physical_cpus": 32}
EVERYTHING = {
    "base": "registry.example.com/team/base:1",
    "identifier": "a-name-that-is-much-longer-than-22-characters",
    "packages": ["gcc", "make"],
    "python_packages": ["micropipenv"],
    "package_manager": "pipenv",
    "python": {
        "requirements": PIPFILE,
        "requirements_locked": LOCK,
        "runtime_environment": {"name": "x"},
        "constraints": ["y<2"],
    },
    "environment": [{"name": "OMP_NUM_THREADS", "value": "2"}, {"name": "GREETING", "value": "good day"}],
    "files": [{"path": "/etc/example.conf", "content": "a 'quoted'\nline é\n"}],
    "script": "#!/usr/bin/env python3\nprint('{}')\n",
    "update": True,
    "upgrade_pip": True,
    "batch_size": 20,
    "parallelism": 2,
    "allowed_failures": 3,
    "build": {"requests": {"cpu": "500m", "memory": "256Mi", "hardware": HARDWARE}},
    "run": {"requests": {"cpu": "2", "memory": "4Gi", "hardware": {**HARDWARE, "processor": "GenuineIntel"}}},
    "send_messages": False,
    "force_sync": True,
    "@created": "2022-04-07T10:00:00",
    "@amun_service_version": "0.10.6",
    "@amun_api_url": "https://amun.example.com/api/v1",
    "@amun_deployment_name": "stage",
}


def changed(**changes):
    """The full request with some fields replaced."""
    return {**copy.deepcopy(EVERYTHING), **changes}


def test_a_request_with_every_field():
    asked = {"family": 6, "model": 85}
    assert from_amun(EVERYTHING) == {
        "stack": {
            "base": "registry.example.com/team/base:1",
            "user": "1042",
            "workdir": "/home/amun",
            "packages": ["gcc", "make"],
            "environment": EVERYTHING["environment"],
            "files": EVERYTHING["files"],
            "update": True,
            "python": {"packages": ["micropipenv"], "upgrade_pip": True, "pipfile": PIPFILE, "pipfile_lock": LOCK},
        },
        "identifier": "a-name-that-is-cc7189",
        "script": {"content": EVERYTHING["script"]},
        "security": {"run_as_user": 1042},
        "workdir": "/home/amun",
        "home": "/home/amun",
        "env": {"HOME": "/home/amun"},
        "repetitions": 20,
        "parallelism": 2,
        "allowed_failures": 3,
        "build": {
            "requests": {"cpu": "500m", "memory": "256Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
            "hardware": {"cpu": asked, "node_selector": {"processor": "Xeon-Gold-6142", "PHYSICAL_CPUS": "32"}},
        },
        "run": {
            "requests": {"cpu": "2", "memory": "4Gi"},
            "limits": {"cpu": "2", "memory": "4Gi"},
            "hardware": {"cpu": {**asked, "vendor": "GenuineIntel"}, "node_selector": {"PHYSICAL_CPUS": "32"}},
        },
        "ignored": [
            "python.runtime_environment",
            "python.constraints",
            "package_manager",
            "send_messages",
            "force_sync",
            "@created",
            "@amun_service_version",
            "@amun_api_url",
            "@amun_deployment_name",
        ],
    }


def test_the_translation_is_understood_by_those_who_read_it():
    options = from_amun(EVERYTHING)
    stack = stack_from_data(options["stack"], "stack")
    assert dict(stack.environment) == {"OMP_NUM_THREADS": "2", "GREETING": "good day"}
    assert stack.files[0].content == "a 'quoted'\nline é\n".encode()
    ask = hardware_from_data(options["run"]["hardware"], "hardware")
    assert ask.cpu == CpuAsk("Intel", 6, 85)
    assert ask.node_selector == (("PHYSICAL_CPUS", "32"),)


SMALLEST = {"stack": {"base": "debian:13", "user": "1042", "workdir": "/home/amun"}, "ignored": []}


def test_the_smallest_request():
    assert from_amun({"base": "debian:13"}) == SMALLEST


def test_what_is_empty_asks_for_nothing():
    empty = {"packages": [], "python": {}, "files": None, "build": {}, "run": {"requests": {}}, "update": False}
    assert from_amun({"base": "debian:13", **empty}) == SMALLEST


def test_the_request_is_left_alone():
    before = copy.deepcopy(EVERYTHING)
    from_amun(EVERYTHING)["stack"]["packages"].append("more")
    assert before == EVERYTHING


def test_a_script_by_url_is_checked_where_it_is_fetched():
    url = "https://example.com/bench.py"
    assert from_amun(changed(script=url))["script"] == {"url": url, "checksum": None}
    assert from_amun(changed(script=url), CHECKSUM)["script"] == {"url": url, "checksum": CHECKSUM}


@pytest.mark.parametrize(
    ("script", "interpreter"),
    [
        ("print(1)\n", "python3"),
        ("#!/bin/sh\necho 1\n", None),
        ("https://example.com/bench.py", "python3"),
        ("https://example.com/bench.py?raw=true", "python3"),
        ("https://example.com/bench.sh", None),
    ],
)
def test_scripts_that_only_amun_ran_by_python_stay_python(script, interpreter):
    checksum = CHECKSUM if script.startswith("https:") else None
    assert from_amun(changed(script=script), checksum).get("interpreter") == interpreter


@pytest.mark.parametrize("script", [None, "echo http://"])
def test_a_checksum_without_a_url_is_a_mistake(script):
    with pytest.raises(BadInput, match="not given by URL"):
        from_amun(changed(script=script), CHECKSUM)


@pytest.mark.parametrize(
    ("request_", "target", "cause"),
    [
        (None, "specification", "it is missing"),
        ([], "specification", "a mapping is needed"),
        ({}, "specification: base", "it is missing"),
        (changed(base=""), "specification: base", "a text is needed"),
        (changed(python_package=["x"]), "specification: python_package", "did you mean python_packages?"),
        (changed(batchsize=2), "specification: batchsize", "did you mean batch_size?"),
        (changed(batch_size=0), "specification: batch_size", "whole number from 1"),
        (changed(batch_size="3"), "specification: batch_size", "whole number from 1"),
        (changed(update="yes"), "specification: update", "true or false"),
        (changed(package_manager="poetry"), "specification: package_manager", "micropipenv, pipenv"),
        (changed(packages="gcc"), "specification: packages", "a list is needed"),
        (changed(python={"requirement": {}}), "specification: python: requirement", "did you mean requirements?"),
        (changed(python={"requirements": PIPFILE}), "specification: python: requirements_locked", "go together"),
        (changed(python={"requirements_locked": LOCK}), "specification: python: requirements", "go together"),
        (changed(build={"request": {}}), "specification: build: request", "did you mean requests?"),
        (changed(run={"requests": {"mem": "1"}}), "specification: run.requests: mem", "did you mean memory?"),
        (
            changed(run={"requests": {"cpu": "lots"}}),
            "specification: run.requests: cpu",
            "does not begin with a number",
        ),
        (changed(run={"requests": {"cpu": "0"}}), "specification: run.requests: cpu", "more than nothing"),
        (
            changed(run={"requests": {"hardware": {"cpu_family": 6, "cpu_model": 85}}}),
            "specification: run.requests.hardware: processor",
            "it is missing",
        ),
        (
            changed(run={"requests": {"hardware": {**HARDWARE, "cpu_model": None}}}),
            "specification: run.requests.hardware: cpu_model",
            "it is missing",
        ),
        (
            changed(run={"requests": {"hardware": {**HARDWARE, "physical_cpu": 2}}}),
            "specification: run.requests.hardware: physical_cpu",
            "did you mean physical_cpus?",
        ),
        (
            changed(build={"requests": {"hardware": {**HARDWARE, "processor": "Intel(R) Xeon(R)"}}}),
            "specification: build.requests.hardware: node_selector.processor",
            "value of a label",
        ),
    ],
)
def test_complaints_name_the_field(request_, target, cause):
    with pytest.raises(BadInput) as caught:
        from_amun(request_)
    assert caught.value.target == target
    assert cause in caught.value.cause


def test_numbers_may_be_amounts():
    options = from_amun({"base": "x", "run": {"requests": {"cpu": 2}}})
    assert options["run"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}


@settings(max_examples=examples(100))
@given(st.sets(st.sampled_from(sorted(set(EVERYTHING) - {"base"}))))
def test_no_field_disappears(left_out):
    request = {key: value for key, value in EVERYTHING.items() if key not in left_out}
    whole, part = from_amun(EVERYTHING), from_amun(request)
    if left_out:
        assert part != whole
    assert part["stack"]["base"] == EVERYTHING["base"]
    assert set(part["ignored"]) <= set(whole["ignored"])


def test_files_of_a_request_in_the_home_of_its_script_are_not_hidden():
    data = {"path": "/home/amun/data", "content": "x"}
    inside = from_amun({"base": "a", "script": "x", "files": [data, {"path": "/etc/x", "content": "y"}]})
    assert (inside["workdir"], inside["home"], inside["security"]) == ("/home/amun",) * 2 + ({"run_as_user": 1042},)
    assert inside["files"] == [data]
    assert "files" not in from_amun({"base": "a", "script": "x", "files": [{"path": "/etc/x", "content": "y"}]})
    assert "security" not in from_amun({"base": "a"})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("mine", "mine"),
        ("TensorFlow_2.1-AICoE", "tensorflow-2-1-aicoe"),
        ("x" * 22, "x" * 22),
        ("x" * 23, "x" * 15 + "-564b14"),
        ("é", "4a9955"),
    ],
)
def test_identifiers_get_the_form_of_names(given, found):
    assert from_amun({"base": "a", "identifier": given})["identifier"] == found


def test_a_package_that_the_lock_pins_is_named_as_ignored():
    asked = changed(python_packages=["NumPy>=1", "numpydoc", "micropipenv"])
    assert from_amun(asked)["stack"]["python"]["packages"] == ["numpydoc", "micropipenv"]
    assert "python_packages: NumPy>=1" in from_amun(asked)["ignored"]
