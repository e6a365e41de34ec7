# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of local_cluster, in a real run of ansible-playbook."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.muster.kube.plugins.action.local_cluster import ActionModule

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Nothing to remove
      muster.kube.local_cluster: {name: unknown, state: absent}
      environment: {MUSTER_CACHE: "{{ cache }}"}
      register: absent
    - name: Refused
      muster.kube.local_cluster: {operators: [nonsense], cache: "{{ cache }}"}
      ignore_errors: true
      register: refused
    - name: Keep
      ansible.builtin.copy:
        dest: "{{ out }}"
        content: "{{ {'absent': absent, 'refused': refused} | to_json }}"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of one playbook."""
    root = tmp_path_factory.mktemp("play")
    (root / "site.yml").write_text(PLAYBOOK)
    variables = {"out": str(root / "out.json"), "cache": str(root / "cache")}
    playbook = pathlib.Path(sys.executable).with_name("ansible-playbook")
    answer = subprocess.run(
        [playbook, "site.yml", "-e", json.dumps(variables)],
        cwd=root,
        env={
            **os.environ,
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_HOME": str(root / "ansible"),
        },
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return json.loads((root / "out.json").read_text())


def test_the_files_of_the_role_are_the_default():
    action = object.__new__(ActionModule)
    assert (pathlib.Path(action.default_args({})["files"]) / "programs.yml").is_file()
    assert action.default_args({"files": "/own"}) == {"files": "/own"}


def test_the_task_runs_in_place_with_its_environment(results):
    assert (results["absent"]["ran"], results["absent"]["changed"]) == ("in_process", False)


def test_the_catalogue_of_the_role_is_read_without_being_asked_for(results):
    known = (
        "appwrapper, external-secrets, jobset, kaiwo, kuberay, kueue, kueue-v0.12, lws, mcad, nfd, "
        "nfd-worker, training-operator"
    )
    assert f"'nonsense' is not in the catalogue; known are {known}" in results["refused"]["msg"]
