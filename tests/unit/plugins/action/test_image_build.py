# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of image_build, in a real run of ansible-playbook, without a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.action.image_build import ActionModule
from ansible_collections.muster.kube.tests.support.fake_builder import FakeBuilder
from ansible_collections.muster.kube.tests.support.play import play_tasks


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The results of one playbook."""
    root = tmp_path_factory.mktemp("play")
    fake = FakeBuilder(root / "fake")
    local = {"engine": "podman", "image": "localhost/x", "stack": {"base": "debian:12"}}
    variables = fake.environment(XDG_CACHE_HOME=str(root / "cache"))
    tasks = {
        "ready": {"muster.kube.image_build": {"image": "debian:12"}},
        "predicted": {"muster.kube.image_build": local, "environment": variables, "check_mode": True},
        "built": {"muster.kube.image_build": local, "environment": variables},
        "again": {"muster.kube.image_build": local, "environment": variables},
        "by_module": {"muster.kube.image_build": local, "environment": variables, "async": 60, "poll": 1},
        "failed": {
            "muster.kube.image_build": {**local, "force": True},
            "environment": {**variables, "FAKE_FAILS": "build"},
        },
    }
    return play_tasks(root, tasks, variables={"ansible_async_dir": str(root / "async")})


def test_the_script_lies_in_the_role():
    action = object.__new__(ActionModule)
    assert "buildah" in action.default_args({"image": "i"})["build_script"]
    assert action.default_args({"build_script": "own"}) == {"build_script": "own"}


def test_the_script_is_read_without_being_asked_for(played):
    built = played["built"]
    assert (built["ran"], built["changed"], built["reason"]) == ("in_process", True, None), built.get("msg")
    assert "building with buildah" in played.output


def test_a_ready_image_is_taken_as_it_is(played):
    assert (played["ready"]["image"], played["ready"]["changed"]) == ("debian:12", False)


def test_check_mode_predicts_and_the_second_run_changes_nothing(played):
    assert (played["predicted"]["changed"], played["again"]["changed"]) == (True, False)
    assert played["predicted"]["image"] == played["built"]["image"]


def test_the_module_itself_gets_the_script_too(played):
    assert (played["by_module"]["ran"], played["by_module"]["cached"]) == ("module", True)


def test_a_failure_tells_reason_and_log(played):
    failed = played["failed"]
    assert failed["failed"]
    assert (failed["reason"], failed["error"]["action"]) == ("build_failed", "build")
    assert "build went wrong" in failed["log"]
