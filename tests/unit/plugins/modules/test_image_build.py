# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of image_build: options in, one call, one answer."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._face.modules import image_build as face
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildFailed
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import TIERS
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import REASONS, SCRIPT_FAILED
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary
from ansible_collections.muster.kube.plugins.modules import image_build
from ansible_collections.muster.kube.tests.support.module_call import call_module

OPTIONS = {"image": "r.example.com/x", "stack": {"base": "debian:12"}, "build_script": "s"}


def called(monkeypatch, options, work):
    monkeypatch.setattr(face, "run_build", work)
    return call_module(monkeypatch, image_build, options).result


def test_options_reach_the_flow_and_its_result_is_returned(monkeypatch):
    seen = []

    def work(_connect, terms, _report):
        seen.append(terms)
        return {"changed": True, "digest": "sha256:1"}

    result = called(monkeypatch, {**OPTIONS, "_ansible_check_mode": True}, work)
    assert result == {"changed": True, "digest": "sha256:1", "ran": "module"}
    (terms,) = seen
    assert (terms.check_mode, terms.engine_used, terms.script) == (True, "job", "s")
    assert terms.spec.repository == "r.example.com/x"


def test_a_failure_returns_the_outcome(monkeypatch):
    def work(*_given):
        raise BuildFailed({"image": "x", "reason": "oom", "message": "too small", "log": "l"})

    result = called(monkeypatch, OPTIONS, work)
    assert (result["failed"], result["reason"], result["log"], result["ran"]) == (True, "oom", "l", "module")
    assert result["msg"] == "Cannot build image x: oom: too small"


def test_a_missing_library_is_named(monkeypatch):
    def work(*_given):
        raise MissingLibrary("kubernetes", "trace")

    assert "kubernetes" in called(monkeypatch, OPTIONS, work)["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stack": {"base": "x"}}, "image"),
        ({"image": "x", "tag": "1"}, "stack"),
        ({"state": "absent"}, "stack, name"),
        ({"image": "x", "tier": "root"}, "tier"),
        ({"image": "r/x:1", "stack": {"base": "x"}}, "image"),
        ({"image": "x", "stack": {"bse": "x"}}, "did you mean base"),
    ],
)
def test_bad_options_never_reach_the_flow(monkeypatch, options, words):
    result = called(monkeypatch, options, lambda *_given: pytest.fail("it ran"))
    assert result["failed"]
    assert words in result["msg"]


def test_tiers_and_reasons_are_documented():
    documented = yaml.safe_load(image_build.DOCUMENTATION)["options"]["tier"]
    assert documented["choices"] == ["auto", *TIERS]
    told = yaml.safe_load(image_build.RETURN)["reason"]["description"]
    assert all(f"V({reason})" in told for reason in REASONS if reason != SCRIPT_FAILED)


def test_the_examples_are_understood(monkeypatch):
    for task in yaml.safe_load(image_build.EXAMPLES):
        options = {**task["muster.kube.image_build"], "build_script": "s"}
        assert called(monkeypatch, options, lambda *_given: {"changed": False})["changed"] is False
