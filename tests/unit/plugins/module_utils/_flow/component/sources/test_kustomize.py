# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kustomizations rendered by kubectl: what it is given, and what becomes of its failures."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.kustomize import Kustomization
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import KustomizeSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n"


def kustomization(tmp_path, answer):
    """A directory, and a program that answers so; its calls are kept."""
    calls = []

    def run(command, environment=None, directory=None):
        """The program."""
        calls.append((command, environment))
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(command, *answer)

    return Kustomization(KustomizeSource(str(tmp_path)), "component c", run), calls


def test_the_objects_are_those_that_kubectl_prints(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/somewhere")
    source, calls = kustomization(tmp_path, (0, TEXT, ""))
    rendered = source.render()
    assert [obj["kind"] for obj in rendered.objects] == ["ConfigMap", "Secret"]
    ((command, environment),) = calls
    assert command == ["kubectl", "kustomize", str(tmp_path)]
    assert "PATH" in environment
    assert "KUBECONFIG" not in environment
    first, second = TEXT.split("---\n")
    turned, _calls = kustomization(tmp_path, (0, f"{second}---\n{first}", ""))
    assert turned.render().digest == rendered.digest


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((1, "", "no kustomization file found\n"), "no kustomization file found"),
        ((0, "", ""), "it is empty"),
        (FileNotFoundError(), "the program kubectl is not there"),
    ],
)
def test_what_goes_wrong_is_told_with_the_component(tmp_path, answer, told):
    source, _calls = kustomization(tmp_path, answer)
    with pytest.raises(MusterError, match=told) as caught:
        source.render()
    assert caught.value.target.startswith("component c")


def test_a_directory_that_is_none_is_refused_before_kubectl_is_run(tmp_path):
    source, calls = kustomization(tmp_path / "nowhere", (0, TEXT, ""))
    with pytest.raises(BadInput, match="it is no directory"):
        source.render()
    assert calls == []
