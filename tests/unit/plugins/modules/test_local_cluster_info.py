# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of local_cluster_info."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible.module_utils import basic
from ansible.module_utils.common.text.converters import to_bytes
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import MissingLibrary
from ansible_collections.muster.kube.plugins.module_utils._model.errors import MusterError
from ansible_collections.muster.kube.plugins.modules import local_cluster_info


class Answer(BaseException):
    """What a module exits with."""


@pytest.fixture
def call(monkeypatch):
    """Runs the module with the flow replaced by a function."""

    def run(options, work):
        def leave(_self, **result):
            raise Answer(result)

        def fail(_self, **result):
            raise Answer({"failed": True, **result})

        monkeypatch.setattr(basic.AnsibleModule, "exit_json", leave)
        monkeypatch.setattr(basic.AnsibleModule, "fail_json", fail)
        arguments = {
            "ANSIBLE_MODULE_ARGS": {"_ansible_remote_tmp": "/tmp", "_ansible_keep_remote_files": False, **options}
        }
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", to_bytes(json.dumps(arguments)))
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        monkeypatch.setattr(local_cluster_info, "describe_clusters", work)
        with pytest.raises(Answer) as answer:
            local_cluster_info.main()
        return answer.value.args[0]

    return run


def test_clusters_are_listed_and_nothing_is_changed(call):
    seen = []

    def work(cache, name):
        seen.append((cache, name))
        return [{"name": "a"}]

    assert call({"cache": "/c", "name": "a"}, work) == {"changed": False, "clusters": [{"name": "a"}]}
    assert seen == [(pathlib.Path("/c"), "a")]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MusterError("read", "/c/cluster.json", "spoilt"), "Cannot read /c/cluster.json: spoilt"),
        (MissingLibrary("kubernetes", "Traceback"), "required Python library (kubernetes)"),
    ],
)
def test_failures_are_told(call, error, message):
    def work(_cache, _name):
        raise error

    answer = call({}, work)
    assert answer["failed"]
    assert message in answer["msg"]
