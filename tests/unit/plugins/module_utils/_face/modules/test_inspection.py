# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of inspection on their way into values."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import RunOptions, ScriptSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.inspector import params_of, terms_of

STACK = {"base": "registry.example.com/base:1", "packages": ["git"]}


def values(**options):
    return terms_of(options)


def test_options_of_the_run_are_gathered_and_unset_ones_left_out():
    found = values(image="i", script="true", repetitions=3, run={"requests": {"cpu": 1}}, timeout="1m", ttl="1h")
    assert found.run == RunOptions(repetitions=3, requests={"cpu": 1})
    assert (found.timeout, found.start_timeout, found.ttl) == (60.0, 1800.0, 3600.0)
    assert found.source == ScriptSource("true")
    assert found.stack is None


def test_a_checksum_alone_is_no_script():
    assert values(image="i", checksum="sha256:" + "0" * 64).source is None


def test_a_stack_becomes_what_image_build_builds():
    found = values(stack=STACK, build={"repository": "registry.example.com/team/x", "requests": {"cpu": "2"}})
    assert found.stack.repository == "registry.example.com/team/x"
    assert found.build.requests == {"cpu": "2"}
    assert (found.build_engine, found.build.push) == ("auto", True)


def test_a_stack_built_in_the_cluster_needs_a_repository():
    with pytest.raises(BadInput, match="build: repository: it is missing"):
        values(stack=STACK)


def test_a_local_inspection_builds_with_podman_and_keeps_the_image():
    found = values(stack=STACK, engine="local")
    assert (found.build_engine, found.build.push) == ("podman", False)
    assert found.stack.repository == "localhost/inspection"


def test_build_options_without_a_stack_are_refused():
    with pytest.raises(BadInput, match="nothing to build"):
        values(image="i", script="true", build={"timeout": "5"})


def test_an_amun_request_is_translated_and_the_task_comes_first():
    request = {
        "base": "registry.example.com/base:1",
        "identifier": "theirs",
        "script": "echo hi",
        "batch_size": 4,
        "run": {"requests": {"cpu": "1", "memory": "256Mi"}},
        "build": {"requests": {"cpu": "500m"}},
        "send_messages": True,
    }
    build = {"repository": "registry.example.com/x"}
    found = values(specification=request, build=build, repetitions=2, identifier="own")
    assert found.identifier == "own"
    # Amun ran by Python whatever does not name another program.
    assert found.run == RunOptions(
        interpreter="python3",
        repetitions=2,
        requests={"cpu": "1", "memory": "256Mi"},
        security={"run_as_user": 1042},
        workdir="/home/amun",
        home="/home/amun",
        env={"HOME": "/home/amun"},
    )
    other = values(specification=request, build=build, security={"run_as_user": 0}, workdir="/srv").run
    assert (other.security, other.workdir) == ({"run_as_user": 0}, "/srv")
    theirs = {"path": "/home/amun/a", "content": "theirs"}
    ours = {"path": "/home/amun/a", "content": "ours"}
    mixed = values(
        specification={**request, "files": [theirs, {**theirs, "path": "/home/amun/b"}]},
        build=build,
        env={"A": "b"},
        files=[ours],
    ).run
    assert mixed.env == {"HOME": "/home/amun", "A": "b"}
    assert [(file["path"], file["content"]) for file in mixed.files] == [
        ("/home/amun/b", "theirs"),
        ("/home/amun/a", "ours"),
    ]
    assert found.source == ScriptSource("echo hi")
    assert found.build.limits == {"cpu": "500m"}
    assert found.stack.stack.base == "registry.example.com/base:1"
    assert found.ignored == ("send_messages",)


def test_a_script_of_an_amun_request_by_url_takes_the_checksum_of_the_task():
    request = {"base": "b", "script": "https://example.com/s"}
    found = values(specification=request, build={"repository": "r.example.com/x"}, checksum="sha256:" + "0" * 64)
    assert found.source == ScriptSource(url="https://example.com/s", checksum="sha256:" + "0" * 64)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"image": "i", "stack": STACK},
        {"image": "i", "script": "a", "src": "/b"},
        {"image": "i", "url": "https://example.com"},
        {"specification": {"base": "b"}, "script": "a"},
        {"image": "i", "files": [{"path": "/a"}]},
    ],
)
def test_options_that_do_not_go_together_are_refused(options):
    with pytest.raises(AssertionError):
        params_of(options)


def test_nothing_is_needed_to_remove():
    assert terms_of({"state": "absent", "name": "inspection-1"}).inspection_id == "inspection-1"
