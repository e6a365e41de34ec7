# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of image_build_info: options in, one question, one answer."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.modules import image_build_info as face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import image_build_info
from ansible_collections.muster.kube.tests.support.module_call import call_module

OPTIONS = {"host": "http://127.0.0.1:1", "api_key": "sesame", "namespace": "team", "log": False}


def called(monkeypatch, answer):
    monkeypatch.setattr(face, "answer_builds", answer)
    return call_module(monkeypatch, image_build_info, OPTIONS).result


def test_options_reach_the_flow_and_its_answer_is_returned(monkeypatch):
    seen = []

    def answer(_client, question):
        seen.append(question)
        return {"builds": []}

    assert called(monkeypatch, answer) == {"changed": False, "builds": []}
    assert (seen[0].namespace, seen[0].log) == ("team", False)


def test_failures_are_told(monkeypatch):
    def fail(_client, _question):
        raise MusterError("list", "configmaps", "no right")

    assert called(monkeypatch, fail)["error"] == {"action": "list", "object": "configmaps", "cause": "no right"}

    def miss(_client, _question):
        raise MissingLibrary("kubernetes", "trace")

    assert "kubernetes" in called(monkeypatch, miss)["msg"]
