# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What helm is asked to do, with secret values in files only, and how its failures are told."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import open_helm
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.capabilities import ServerCapabilities
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import HelmMark
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.helm_program import written_helm

SERVER = ServerCapabilities("v1.36.3", frozenset({"v1", "apps/v1/Deployment"}))
SOURCE = HelmSource(
    "widgets", "./widget", "w", "home", version="1.0.0", values={"a": 1}, secret_values={"password": "hunter22"}
)
MARK = HelmMark("widgets", "abc", 4)


@pytest.fixture
def helm(tmp_path):
    """A helm that writes down how it was called."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/home/x", "HELM_NAMESPACE": "elsewhere", "KUBECONFIG": "/other"}
    return open_helm(environ, lambda: {"kind": "Config", "token": "sesame"}, written_helm(tmp_path))


def called(tmp_path):
    """The last call: its arguments, the contents of its files, and its environment."""
    return json.loads((tmp_path / "called").read_text(encoding="utf-8"))


def test_a_chart_is_rendered_as_the_server_would_see_it(helm, tmp_path):
    assert helm.render("/charts/widget", SOURCE, SERVER, upgrade=False) == "rendered\n"
    call = called(tmp_path)
    assert call["arguments"][:3] == ["template", "w", "/charts/widget"]
    for pair in (["--namespace", "home"], ["--kube-version", "v1.36.3"], ["--api-versions", "apps/v1/Deployment,v1"]):
        place = call["arguments"].index(pair[0])
        assert call["arguments"][place : place + 2] == pair
    assert {"--include-crds", "--skip-tests", "--dry-run=server"} < set(call["arguments"])
    assert "--is-upgrade" not in call["arguments"]
    helm.render("/charts/widget", SOURCE, SERVER, upgrade=True)
    assert "--is-upgrade" in called(tmp_path)["arguments"]


def test_values_and_credentials_travel_by_files_only(helm, tmp_path):
    helm.upgrade("/charts/widget", SOURCE, MARK, 60)
    call = called(tmp_path)
    assert sorted(json.loads(text) for text in call["files"].values() if "a" in json.loads(text)) == [{"a": 1}]
    assert {"password": "hunter22"} in [json.loads(text) for text in call["files"].values()]
    assert {"kind": "Config", "token": "sesame"} in [json.loads(text) for text in call["files"].values()]
    assert "hunter22" not in json.dumps([call["arguments"], call["environment"]])
    assert "sesame" not in json.dumps([call["arguments"], call["environment"]])


def test_an_upgrade_keeps_hooks_and_takes_no_values_of_before(helm, tmp_path):
    helm.upgrade("/charts/widget", SOURCE, MARK, 60)
    arguments = called(tmp_path)["arguments"]
    assert arguments[:4] == ["upgrade", "w", "/charts/widget", "--install"]
    assert {"--reset-values", "--skip-crds", "--wait=false"} < set(arguments)
    assert not any("no-hooks" in argument or "atomic" in argument or "force" in argument for argument in arguments)
    labels = arguments[arguments.index("--labels") + 1]
    told = dict(label.split("=") for label in labels.split(","))
    assert told == MARK.as_labels()
    assert arguments[arguments.index("--timeout") + 1] == "60s"


def test_an_uninstall_keeps_hooks_and_leaves_no_history(helm, tmp_path):
    helm.uninstall(SOURCE, 0.2)
    arguments = called(tmp_path)["arguments"]
    assert arguments[:2] == ["uninstall", "w"]
    assert not any("no-hooks" in argument or "keep-history" in argument for argument in arguments)
    assert arguments[arguments.index("--timeout") + 1] == "1s"


def test_which_cluster_and_storage_are_used_is_not_left_to_the_environment(helm, tmp_path):
    helm.uninstall(SOURCE, 60)
    environment = called(tmp_path)["environment"]
    assert (environment["HELM_DRIVER"], environment["HOME"]) == ("secret", "/home/x")
    assert not {"HELM_NAMESPACE", "KUBECONFIG"} & environment.keys()


def test_a_failure_is_told_in_the_words_of_helm_and_without_secrets(helm, tmp_path):
    (tmp_path / "fails").write_text("W1119 a warning\nError: bad value\n  hunter22 in\ttext\n", encoding="utf-8")
    with pytest.raises(MusterError) as told:
        helm.upgrade("/charts/widget", SOURCE, MARK, 60)
    assert str(told.value) == "Cannot install release home/w: bad value (not shown) in text"
    with pytest.raises(MusterError, match=r"Cannot render chart ./widget: bad value"):
        helm.render("/charts/widget", SOURCE, SERVER, upgrade=False)


def test_helm_writes_only_as_long_as_we_may(helm, tmp_path):
    def lost():
        raise MusterError("hold", "the Lease", "somebody else has it")

    held = dataclasses.replace(helm, hold=lost)
    assert held.render("/charts/widget", SOURCE, SERVER, upgrade=False) == "rendered\n"
    for action in (lambda: held.upgrade("/charts/widget", SOURCE, MARK, 60), lambda: held.uninstall(SOURCE, 60)):
        with pytest.raises(MusterError, match="Cannot hold the Lease: somebody else has it"):
            action()
    assert called(tmp_path)["arguments"][0] == "template"


def test_a_helm_that_is_too_old_or_too_new_is_refused(tmp_path):
    for version in ("v3.12.3", "v4.0.0"):
        with pytest.raises(MusterError, match=r"has version .*; needed is helm 3\.13 or newer, older than 4"):
            open_helm({"PATH": os.environ["PATH"]}, dict, written_helm(tmp_path, version))
