# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In-process actions under ansible-runner, as AWX runs every job: its events tell what the tasks did and showed."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import typing as t

import ansible_runner
import pytest
from ansible_collections.muster.kube.tests.support.trial_action import write_trial

Event = dict[str, t.Any]
# Variables, as in AWX: Ansible itself shows the lines of a playbook as they are written.
SECRETS = {"word": "s3cr3t-value", "other_word": "deep-secret", "third_word": "unspoken"}
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - {name: plain, trial: {text: hello, token: "{{ word }}", hidden: "{{ other_word }}"}}
    - {name: check, trial: {}, check_mode: true}
    - {name: environment, trial: {}, environment: {TASK_VARIABLE: word}}
    - {name: silent, trial: {text: "{{ third_word }}"}, no_log: true}
    - {name: background, trial: {text: x}, async: 30, poll: 1}
    - {name: failure, trial: {fail: true, token: "{{ word }}"}, ignore_errors: true}
    - {name: many, trial: {text: "{{ item }}"}, loop: "{{ range(50) | list }}"}
- hosts: far
  gather_facts: false
  tasks:
    - {name: delegated, trial: {text: "for {{ inventory_hostname }}"}, delegate_to: localhost}
"""
HOSTS = {
    "localhost": {"ansible_connection": "local", **SECRETS},
    # Nobody answers at this address.
    "far": {"ansible_connection": "ssh", "ansible_host": "192.0.2.1"},
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """The events of one run."""
    root = tmp_path_factory.mktemp("runner")
    project = root / "project"
    project.mkdir()
    write_trial(project)
    (project / "site.yml").write_text(PLAYBOOK, encoding="utf-8")
    variables = {
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_HOME": str(root / "ansible"),
        "ANSIBLE_ASYNC_DIR": str(root / "async"),
        "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    run = ansible_runner.run(
        private_data_dir=str(root),
        playbook="site.yml",
        inventory={"all": {"hosts": HOSTS}},
        envvars=variables,
        quiet=True,
    )
    told = list(run.events)
    assert (run.rc, run.status) == (0, "successful"), "".join(event["stdout"] for event in told)
    return told


def results(events: list[Event], task: str, kind: str = "runner_on_ok") -> list[Event]:
    """What a task returned, once or for each item of its loop."""
    return [
        event["event_data"]["res"] for event in events if event["event"] == kind and event["event_data"]["task"] == task
    ]


def test_work_is_done_in_the_process_and_its_progress_is_shown(events):
    (plain,) = results(events, "plain")
    assert (plain["ran"], plain["text"], plain["checked"]) == ("in_process", "hello", False)
    assert any("[localhost] trial: working on hello with ********" in event["stdout"] for event in events)


def test_no_event_has_a_secret_or_what_a_task_hides(events):
    told = json.dumps(events)
    (silent,) = results(events, "silent")
    for word in SECRETS.values():
        assert word not in told
    assert "censored" in silent


def test_modes_and_the_environment_of_tasks_are_kept(events):
    (check,), (environment,) = results(events, "check"), results(events, "environment")
    assert (check["checked"], check["variable"]) == (True, None)
    assert (environment["checked"], environment["variable"]) == (False, "word")


def test_elsewhere_the_module_is_executed(events):
    (background,) = results(events, "background")
    assert background["ran"] == "module"


def test_delegation_to_this_machine_runs_here(events):
    (delegated,) = results(events, "delegated")
    assert (delegated["ran"], delegated["text"]) == ("in_process", "for far")


def test_failures_are_told(events):
    (failure,) = results(events, "failure", "runner_on_failed")
    assert failure["msg"] == "Cannot do it: not with ********"


def test_each_item_of_a_loop_has_its_event(events):
    told = results(events, "many", "runner_item_on_ok")
    assert [item["text"] for item in told] == [str(number) for number in range(50)]
    assert {item["ran"] for item in told} == {"in_process"}
