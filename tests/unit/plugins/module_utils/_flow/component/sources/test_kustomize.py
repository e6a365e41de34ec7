# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kustomizations rendered by kubectl: what it is given, and what becomes of its failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.kustomize import Kustomization
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import (
    InstalledPrograms,
    ProgramPaths,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import KustomizeSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n"
PROGRAM = """#!/bin/sh
if [ "$1" = version ]; then echo "Client Version: v1.36.0"; exit 0; fi
echo "$*" > "$0.called"; env > "$0.environment"
cat "$0.told"; cat "$0.why" >&2; exit $(cat "$0.code")
"""


def kustomization(directory, text=TEXT, code=0, why="", src=None):
    """A kustomization, and a kubectl that answers so."""
    kubectl = directory / "kubectl"
    kubectl.write_text(PROGRAM)
    kubectl.chmod(0o700)
    for name, content in (("told", text), ("why", why), ("code", str(code))):
        (directory / f"kubectl.{name}").write_text(content)
    programs = InstalledPrograms(dict, ProgramPaths(kubectl=str(kubectl)))
    return Kustomization(KustomizeSource(src or str(directory)), "component c", programs)


def test_the_objects_are_those_that_kubectl_prints(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/somewhere")
    rendered = kustomization(tmp_path).render()
    assert [obj["kind"] for obj in rendered.objects] == ["ConfigMap", "Secret"]
    assert (tmp_path / "kubectl.called").read_text() == f"kustomize {tmp_path}\n"
    assert "KUBECONFIG" not in (tmp_path / "kubectl.environment").read_text()
    first, second = TEXT.split("---\n")
    assert kustomization(tmp_path, f"{second}---\n{first}").render().digest == rendered.digest


def test_a_kustomization_at_an_address_is_left_to_kubectl(tmp_path):
    src = "https://example.com/gadgets//config/default?ref=v1"
    assert kustomization(tmp_path, src=src).render().objects
    assert (tmp_path / "kubectl.called").read_text() == f"kustomize {src}\n"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (("", 1, "no kustomization file found\n"), "no kustomization file found"),
        (("", 1, "no 'git' program on path\n"), "no 'git' program on path"),
        (("", 0, ""), "it is empty"),
    ],
)
def test_what_goes_wrong_is_told_with_the_component(tmp_path, answer, told):
    with pytest.raises(MusterError, match=told) as caught:
        kustomization(tmp_path, *answer).render()
    assert caught.value.target.startswith("component c")


def test_a_kubectl_that_is_missing_is_told_with_what_is_needed(tmp_path):
    programs = InstalledPrograms(dict, ProgramPaths(kubectl=str(tmp_path / "nowhere")))
    with pytest.raises(MusterError, match=r"needed is kubectl 1\.21 or newer; it renders kustomizations"):
        Kustomization(KustomizeSource(str(tmp_path)), "component c", programs).render()


@pytest.mark.parametrize("src", ["nowhere", "-h"])
def test_what_is_no_directory_is_refused_before_kubectl_is_run(tmp_path, src):
    with pytest.raises(BadInput, match="it is no directory"):
        kustomization(tmp_path, src=src).render()
    assert not (tmp_path / "kubectl.called").exists()
