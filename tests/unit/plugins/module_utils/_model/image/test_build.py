# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A build's names, identity and package list."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import (
    KEPT_BYTES,
    BuildSpec,
    check_registries,
    check_repository,
    check_tag,
    parse_packages,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import File, Stack, stack_data
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

HASH = "ab" * 32
SPEC = BuildSpec(Stack("debian:12"), "registry.example.com:5000/team/x", HASH)


def test_the_tag_follows_from_the_stack_unless_given():
    assert SPEC.reference == f"registry.example.com:5000/team/x:sha-{HASH[:20]}"
    assert dataclasses.replace(SPEC, tag="1.0").reference == "registry.example.com:5000/team/x:1.0"


def test_identity_depends_on_stack_and_name_only():
    same = dataclasses.replace(SPEC, tag=f"sha-{HASH[:20]}")
    others = [
        dataclasses.replace(SPEC, tag="1"),
        dataclasses.replace(SPEC, spec_hash="cd" * 32),
        dataclasses.replace(SPEC, repository="x"),
    ]
    assert same.identity == SPEC.identity
    assert len({SPEC.identity, *(spec.identity for spec in others)}) == 4
    assert SPEC.name == f"build-{SPEC.identity[:10]}"


def test_the_record_keeps_small_files_whole_and_large_ones_by_digest():
    small = dataclasses.replace(SPEC, stack=Stack("x", files=(File("/a", b"hello"),)))
    assert small.as_data()["stack"] == stack_data(small.stack)
    large = dataclasses.replace(SPEC, stack=Stack("x", files=(File("/a", b"y" * KEPT_BYTES),)))
    (entry,) = large.as_data()["stack"]["files"]
    assert (entry["path"], entry["bytes"], len(entry["sha256"])) == ("/a", KEPT_BYTES, 64)


@pytest.mark.parametrize("name", ["x", "localhost/x", "127.0.0.1:5000/a/b", "registry.example.com/team/a-b_c.d"])
def test_repositories(name):
    assert check_repository(name, "image") == name


@pytest.mark.parametrize("name", ["", "x:1", "a/b@sha256:00", "a b", "a/B", "/x", "x/", "a/$(id)", "a" * 256])
def test_what_is_no_repository(name):
    with pytest.raises(BadInput, match="image"):
        check_repository(name, "image")


def test_tags_and_registries_that_could_break_a_configuration_are_refused():
    assert check_tag("v1.0-rc_1", "tag") == "v1.0-rc_1"
    assert check_tag(None, "tag") is None
    with pytest.raises(BadInput, match="tag"):
        check_tag("a:b", "tag")
    assert check_registries(["r.example.com:5000", "10.0.0.1"], "x") == ("r.example.com:5000", "10.0.0.1")
    for bad in ('a"\n[[registry]]', "a b", ""):
        with pytest.raises(BadInput, match="insecure"):
            check_registries([bad], "insecure")


def test_packages_as_package_managers_print_them():
    text = (
        "@dpkg\nii  hello 2.10-3\nrc  gone 1.0\nii  adduser 3.134\n"
        "@rpm\nbash 0:5.2.15-3.el9.x86_64\nperl 4:5.32-1.x86_64\ngpg-pubkey (none):1-2.(none)\n"
        "@apk\nmusl-1.2.4-r2\npy3-pip-23.1-r0\nWARNING: cached\n"
        "@pip\nnumpy 2.2.1\nnumpy 2.2.1\nodd line here\n"
    )
    found = parse_packages(text)
    assert found["dpkg"] == [{"name": "adduser", "version": "3.134"}, {"name": "hello", "version": "2.10-3"}]
    assert {"name": "bash", "version": "5.2.15-3.el9.x86_64"} in found["rpm"]
    assert {"name": "perl", "version": "4:5.32-1.x86_64"} in found["rpm"]
    assert found["apk"] == [{"name": "musl", "version": "1.2.4-r2"}, {"name": "py3-pip", "version": "23.1-r0"}]
    assert found["pip"] == [{"name": "numpy", "version": "2.2.1"}]


def test_managers_an_image_does_not_have_are_none():
    assert parse_packages("") == {"dpkg": None, "rpm": None, "apk": None, "pip": None}
    assert parse_packages("@pip\n")["pip"] == []


@pytest.mark.parametrize(
    ("status", "installed"),
    [("ii", True), ("hi", True), ("iiR", True), ("rc", False), ("un", False), ("iU", False), ("i", False)],
)
def test_the_second_letter_of_dpkg_says_whether_a_package_is_installed(status, installed):
    assert len(parse_packages(f"@dpkg\n{status}  hello 2.10\n")["dpkg"]) == installed


@pytest.mark.parametrize("line", ["ii hello", "ii hello 2.10 amd64", "", "@other"])
def test_lines_of_another_form_name_no_package(line):
    assert parse_packages(f"@dpkg\n{line}\n")["dpkg"] == []


def test_a_name_may_be_two_hundred_and_fifty_five_letters_long():
    assert check_repository("a" * 255, "image") == "a" * 255
    assert check_tag("a" * 128, "tag") == "a" * 128
    with pytest.raises(BadInput, match="tag"):
        check_tag("a" * 129, "tag")
