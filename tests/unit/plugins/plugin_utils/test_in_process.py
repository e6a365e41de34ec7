# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of in-process actions, in real runs of ansible-playbook with an action made for it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import typing as t

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible_collections.muster.kube.plugins.plugin_utils._checked import plain
from ansible_collections.muster.kube.tests.support.trial_action import write_trial

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Plain
      trial: {text: "{{ greeting }}", token: s3cr3t-value, hidden: deep-secret, more: {a: "{{ greeting }}", b: 1}}
      register: plain
    - name: Default
      trial:
      register: default
    - name: Own part
      trial: {parts: {two.txt: mine}, folder: /own}
      register: own_part
    - name: Odd part
      trial: {parts: odd}
      ignore_errors: true
      register: odd_part
    - name: Environment
      trial: {}
      environment: {TASK_VARIABLE: "{{ greeting }}"}
      register: with_variable
    - name: Environment afterwards
      trial: {}
      register: afterwards
    - name: Check
      trial: {}
      check_mode: true
      diff: true
      register: check
    - name: Failure
      trial: {fail: true, token: s3cr3t-value}
      ignore_errors: true
      register: failure
    - name: Bad option
      trial: {nonsense: 1, numbr: 1}
      ignore_errors: true
      register: bad
    - name: Rule
      trial: {number: 1, other: x}
      ignore_errors: true
      register: rule
    - name: Files
      trial: {src: gang.yml, kubeconfig: "config:vaulted", gangs: [{src: gang.yml}, {src: beside.yml}]}
      register: files
    - name: A kubeconfig that is no file
      trial: {src: "{{ playbook_dir }}/beside.yml", kubeconfig: {users: []}}
      register: mapping
    - name: Missing
      trial: {src: nowhere.yml}
      ignore_errors: true
      register: missing
    - name: Missing kubeconfig
      trial: {kubeconfig: /nowhere/config}
      ignore_errors: true
      register: missing_config
    - name: Unknown option elsewhere
      trial: {numbr: 1}
      async: 30
      poll: 1
      ignore_errors: true
      register: bad_module
    - name: Silent
      trial: {text: unspoken}
      no_log: true
      register: silent
    - name: Become
      trial: {text: x}
      become: true
      become_method: "{{ method }}"
      become_user: root
      register: become
      when: is_root
    - name: Async
      trial: {text: x}
      async: 30
      poll: 1
      register: background
    - name: Delegated
      trial: {text: "for {{ inventory_hostname }}"}
      delegate_to: localhost
      register: delegated
    - name: Loop
      trial: {text: "{{ item }}"}
      loop: "{{ range(50) | list }}"
      loop_control: {label: "{{ item }}"}
      register: loop
    - name: Keep
      ansible.builtin.copy:
        dest: "{{ out }}"
        content: "{{ {'plain': plain, 'default': default, 'own_part': own_part,
          'odd_part': odd_part, 'with_variable': with_variable, 'afterwards': afterwards,
          'check': check, 'failure': failure, 'bad': bad, 'rule': rule, 'silent': silent, 'become': become,
          'files': files, 'mapping': mapping, 'missing': missing, 'missing_config': missing_config,
          'bad_module': bad_module, 'background': background, 'delegated': delegated,
          'loop': loop.results | map(attribute='text') | list} | to_json }}"
- hosts: far
  gather_facts: false
  tasks:
    - name: Delegated from another machine
      trial: {text: "for {{ inventory_hostname }}"}
      delegate_to: localhost
      register: delegated
    - name: Keep
      ansible.builtin.copy:
        dest: "{{ out }}.far"
        content: "{{ {'delegated_from_far': delegated} | to_json }}"
      delegate_to: localhost
"""


def write_files(root: pathlib.Path) -> None:
    """What tasks name without a directory: beside the playbook, in files, and one that is encrypted."""
    (root / "files").mkdir()
    (root / "files" / "gang.yml").write_text("from files")
    (root / "beside.yml").write_text("from beside")
    (root / "files" / "config").write_text("plain config")
    (root / "password").write_text("a password")
    secret = VaultSecret(b"a password")
    (root / "files" / "vaulted").write_bytes(VaultLib([("default", secret)]).encrypt("vaulted config", secret))


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> tuple[dict[str, t.Any], str]:
    """The results of one playbook and what it showed."""
    root = tmp_path_factory.mktemp("play")
    write_trial(root)
    (root / "site.yml").write_text(PLAYBOOK)
    # Nobody answers at the address of the other machine.
    hosts = {
        "localhost": {"ansible_connection": "local", "greeting": "hello"},
        "far": {"ansible_connection": "ssh", "ansible_host": "192.0.2.1"},
    }
    (root / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    write_files(root)
    # Each of the two lets root be root without a password; every system has one of them.
    method = "sudo" if shutil.which("sudo") else "su"
    variables = {"out": str(root / "out.json"), "is_root": os.getuid() == 0, "method": method}
    playbook = pathlib.Path(sys.executable).with_name("ansible-playbook")
    answer = subprocess.run(
        [
            playbook,
            "-vvv",
            "--vault-password-file",
            "password",
            "-i",
            "hosts.yml",
            "site.yml",
            "-e",
            json.dumps(variables),
        ],
        cwd=root,
        env={
            **os.environ,
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(root / "ansible"),
            "ANSIBLE_ASYNC_DIR": str(root / "async"),
        },
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    kept = (json.loads((root / name).read_text()) for name in ("out.json", "out.json.far"))
    return {name: result for results in kept for name, result in results.items()}, answer.stdout


def test_work_is_done_in_the_process_with_plain_types(played):
    result = played[0]["plain"]
    assert result["ran"] == "in_process"
    assert result["text"] == "hello"
    assert result["types"] == ["int", "str"]


def test_secrets_are_masked_everywhere(played):
    results, shown = played
    assert "s3cr3t-value" not in shown
    assert "deep-secret" not in shown
    assert results["plain"]["seen"] == "******** ********"
    assert "s3cr3t-value" not in json.dumps(results)
    assert "working on hello with ********" in shown


def test_the_invocation_is_shown_to_the_curious(played):
    assert '"module_args"' in played[1]


def test_what_the_collection_adds_is_not_shown_in_full(played):
    shown = played[1].partition("TASK [Plain]")[2].partition("TASK [Default]")[0]
    assert "p" * 5000 not in shown
    assert "(5000 characters of the collection's own)" in shown


def test_progress_is_shown_with_the_host(played):
    assert "[localhost] trial: working on hello" in played[1]


def test_options_only_the_controller_knows_are_added(played):
    default = played[0]["default"]
    assert default["text"] == "from the controller"
    assert default["parts"] == {"one.txt": "own one.txt", "two.txt": "own two.txt"}
    assert pathlib.Path(default["folder"]).name == "parts"


def test_a_task_may_bring_its_own_for_each_of_them(played):
    own = played[0]["own_part"]
    assert (own["folder"], own["parts"]) == ("/own", {"one.txt": "own one.txt", "two.txt": "mine"})
    assert "parts" in played[0]["odd_part"]["msg"]


def test_the_environment_of_the_task_is_set_and_taken_back(played):
    assert played[0]["with_variable"]["variable"] == "hello"
    assert played[0]["afterwards"]["variable"] is None


def test_check_mode_is_passed_on(played):
    assert (played[0]["check"]["checked"], played[0]["check"]["called"]) == (True, True)
    assert (played[0]["plain"]["checked"], played[0]["plain"]["called"]) == (False, False)


def test_diff_mode_is_passed_on(played):
    assert (played[0]["check"]["diff"], played[0]["plain"]["diff"]) == (True, False)


def test_errors_of_our_family_become_failures(played):
    failure = played[0]["failure"]
    assert failure["failed"]
    assert failure["msg"] == "Cannot do it: not with ********"
    assert failure["error"]["object"] == "it"


def test_options_are_validated(played):
    unknown, _comma, rest = played[0]["bad"]["msg"].partition("; ")
    assert unknown.startswith("Unsupported parameters for (trial) module: nonsense (supported are ")
    assert rest.startswith("numbr (did you mean number?)")
    assert played[0]["rule"]["msg"] == "parameters are mutually exclusive: number|other"


def test_files_are_found_beside_the_playbook_and_in_files(played):
    found = played[0]["files"]
    assert (found["src"], found["gangs"]) == ("from files", ["from files", "from beside"])
    assert played[0]["mapping"]["src"] == "from beside"


def test_a_kubeconfig_is_found_alike_and_decrypted(played):
    assert played[0]["files"]["kubeconfig"] == ["plain config", "vaulted config"]
    assert played[0]["mapping"]["kubeconfig"] == {"users": []}


def test_a_file_that_is_nowhere_is_named(played):
    missing, config = played[0]["missing"], played[0]["missing_config"]
    assert missing["failed"]
    assert missing["msg"].startswith("Cannot find the file nowhere.yml (src): it is in none of ")
    assert config["msg"] == "Cannot find the file /nowhere/config (kubeconfig): there is no such file"


def test_the_nearest_name_is_told_of_modules_that_run_elsewhere_too(played):
    assert "numbr (did you mean number?)" in played[0]["bad_module"]["msg"]


def test_hidden_tasks_show_nothing(played):
    assert "unspoken" not in played[1]


def test_elsewhere_the_module_is_executed(played):
    assert played[0]["background"]["ran"] == "module"


def test_as_another_user_the_module_is_executed(played):
    if os.getuid() != 0:
        pytest.skip("becoming another user without a password needs root")
    assert played[0]["become"]["ran"] == "module"


def test_delegation_to_this_machine_runs_here(played):
    assert played[0]["delegated"]["text"] == "for localhost"
    assert played[0]["delegated"]["ran"] == "in_process"
    assert played[0]["delegated_from_far"]["text"] == "for far"
    assert played[0]["delegated_from_far"]["ran"] == "in_process"


def test_loops_work(played):
    assert played[0]["loop"] == [str(number) for number in range(50)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ((1, {"a": {2.5}}), [1, {"a": [2.5]}]),
        (pathlib.PurePosixPath("/x"), "/x"),
    ],
)
def test_values_become_plain(value, expected):
    assert plain(value) == expected


def test_subclasses_of_text_and_numbers_become_plain():
    class Text(str):
        """Like Ansible's tagged text."""

    class Number(int):
        """Like Ansible's tagged number."""

    found = plain({Text("a"): [Text("b"), Number(3)]})
    assert found == {"a": ["b", 3]}
    assert [type(item) for item in found["a"]] == [str, int]
    assert next(iter(found)).__class__ is str
