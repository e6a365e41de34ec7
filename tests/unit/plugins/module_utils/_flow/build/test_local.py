# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds on this machine: one for each specification while its image is there, and the same outcome as elsewhere."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build import local
from ansible_collections.muster.kube.plugins.module_utils._flow.build.local import (
    build_locally,
    find_program,
    outcome_folder,
    remove_locally,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import BuildSecret, Stack
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.fake_builder import SCRIPT, FakeBuilder

SPEC = BuildSpec(Stack("debian:12"), "localhost/x", "ab" * 32)
SETTINGS = BuildSettings(push=False)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """The stand-in, first on the path, and a cache of the test's own."""
    made = FakeBuilder(tmp_path / "fake")
    for name, value in made.environment(XDG_CACHE_HOME=str(tmp_path / "cache")).items():
        monkeypatch.setenv(name, value)
    return made


def build(spec=SPEC, settings=SETTINGS, **named):
    return build_locally(spec, settings, SCRIPT.read_text(), lambda _text: None, **named)


def test_a_build_and_its_outcome(fake):
    result = build()
    assert (result["reason"], result["image"], result["image_id"]) == (None, SPEC.reference, "sha256:1d")
    assert (result["engine_used"], result["tier"], result["program"]) == ("podman", None, "buildah")
    assert (result["cached"], result["changed"]) == (False, True)
    assert result["packages"]["dpkg"] == [{"name": "hello", "version": "2.10"}]
    assert result["dockerfile"].startswith("FROM debian:12")
    assert "push" not in fake.verbs


def test_the_same_is_not_built_twice_while_the_image_is_there(fake):
    first = build()
    assert build() == {**first, "cached": True, "changed": False}
    assert fake.verbs.count("build") == 1
    (fake.state / "image").unlink()
    assert not build()["cached"]
    assert not build(force=True)["cached"]
    assert fake.verbs.count("build") == 3


def test_an_image_that_was_not_pushed_is_built_again_to_be_pushed(fake):
    build()
    pushed = build(settings=BuildSettings(push=True))
    assert (pushed["cached"], pushed["digest"]) == (False, "sha256:d1")
    assert build(settings=BuildSettings(push=True))["cached"]


def test_check_mode_builds_nothing(fake):
    assert build(check_mode=True)["changed"]
    assert "build" not in fake.verbs


def test_a_damaged_outcome_does_not_count(fake):
    build()
    (outcome_folder() / f"{SPEC.name}.json").write_text("{")
    assert not build()["cached"]


def test_a_failure_is_told_and_not_kept(fake, monkeypatch):
    monkeypatch.setenv("FAKE_FAILS", "build")
    result = build()
    assert (result["reason"], result["message"]) == ("build_failed", "Error: build went wrong")
    assert not outcome_folder().exists()


def test_a_build_that_hangs_is_ended(fake, monkeypatch):
    monkeypatch.setenv("FAKE_HANGS", "build")
    result = build(settings=BuildSettings(push=False, timeout=0.5))
    assert (result["reason"], result["digest"]) == ("timeout", None)


def test_secrets_come_from_files(fake, tmp_path):
    (tmp_path / "token").write_text("geheim")
    secret = BuildSecret("token", file=str(tmp_path / "token"))
    spec = dataclasses.replace(SPEC, stack=Stack("debian:12", secrets=(secret,)))
    result = build(spec)
    assert (fake.state / "secrets").read_text() == "geheim"
    assert "geheim" not in json.dumps(result)
    for broken in (dataclasses.replace(secret, file=None), dataclasses.replace(secret, file=str(tmp_path / "no"))):
        with pytest.raises(BadInput, match="build secret token"):
            build(dataclasses.replace(SPEC, tag="x", stack=Stack("debian:12", secrets=(broken,))))


def test_removal_takes_image_and_outcome(fake):
    assert not remove_locally(SPEC)
    build()
    assert remove_locally(SPEC, dry=True)
    assert remove_locally(SPEC)
    assert not remove_locally(SPEC)
    assert not build()["cached"]


def test_buildah_comes_first_and_one_of_both_is_needed(fake, monkeypatch):
    assert find_program() == "buildah"
    (fake.programs / "buildah").unlink()
    monkeypatch.setenv("PATH", str(fake.programs))
    assert find_program() == "podman"
    monkeypatch.setattr(local.shutil, "which", lambda _name: None)
    with pytest.raises(MusterError, match="neither buildah nor podman"):
        find_program()
