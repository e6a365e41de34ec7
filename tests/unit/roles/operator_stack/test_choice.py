# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role operator_stack chooses, without a cluster: the file of tasks that would install it only tells it."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.tests.support.play import run_playbook
from ansible_collections.muster.kube.tests.support.stack_catalogue import small_catalogue

ROLE = pathlib.Path(__file__).resolve().parents[4] / "roles/operator_stack"
DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
SPECS = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
TOLD = {"chosen": "operator_stack_chosen", "host": "operator_stack_host", "token": "operator_stack_token"}
BELL = [{"version": "0.2.0", "kubernetes": ">=1.30"}]
Variables = dict[str, t.Any]


def runs(files: pathlib.Path) -> dict[str, Variables]:
    """The variables of each run of the role."""
    own = {"operator_stack_files": str(files)}
    return {
        "profile": {"operator_stack_profile": ["gang"], "operator_stack_kubernetes": "1.33"},
        "one_name": {"operator_stack_profile": "training"},
        "wishes": {**own, "operator_stack_components": {"gears": {"values": {"a": {"b": 2}}, "skip": False}}},
        "more_versions": {**own, "operator_stack_components": {"bell": {}}, "operator_stack_versions": {"bell": BELL}},
        "nothing": {},
        "olm": {"operator_stack_profile": ["rhoai"]},
        "no_olm": {
            "operator_stack_profile": ["rhoai"],
            "operator_stack_components": {name: {"skip": True} for name in ("rhoai", "nfd", "nvidia-gpu-operator")}
            | {"jobset": {}},
        },
        "misspelled": {"operator_stack_profile": ["gagn"]},
        "old_server": {"operator_stack_profile": ["gang"], "operator_stack_kubernetes": "1.20"},
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> t.Callable[[str], Variables]:
    """What each run chose, or why it ended."""
    directory = tmp_path_factory.mktemp("operator_stack")
    files = directory / "files"
    (files / "components").mkdir(parents=True)
    data = small_catalogue()
    for row in data["components"]:
        (files / "components" / f"{row['name']}.yml").write_text(yaml.safe_dump(row))
    for name in ("versions", "profiles"):
        (files / f"{name}.yml").write_text(yaml.safe_dump(data[name]))
    tell = {"ansible.builtin.copy": {"dest": "{{ told }}", "content": "{{ told_of | to_json }}", "mode": "0600"}}
    told_of = {name: f"{{{{ {variable} }}}}" for name, variable in TOLD.items()}
    (directory / "present.yml").write_text(yaml.safe_dump([{"name": "Tell", **tell, "vars": {"told_of": told_of}}]))
    plays = []
    for name, variables in runs(files).items():
        why = {"dest": str(directory / f"{name}.why"), "content": "{{ ansible_failed_result | to_json }}"}
        block = {
            "name": name,
            "block": [
                {"ansible.builtin.include_role": {"name": "muster.kube.operator_stack", "rolespec_validate": False}}
            ],
            "rescue": [{"ansible.builtin.copy": {**why, "mode": "0600"}}],
            # A file instead of one of the role's own.
            "vars": {"operator_stack_state": str(directory / "present"), "told": str(directory / name), **variables},
        }
        plays.append({"hosts": "localhost", "gather_facts": False, "tasks": [block]})
    (directory / "playbook.json").write_text(json.dumps(plays))
    output, code = run_playbook(
        directory, directory / "playbook.json", OCP_URL="https://api.example:6443", OCP_TOKEN="sesame"
    )
    assert code == 0, output

    def of(name: str) -> Variables:
        """One run."""
        path = directory / name
        why = path.with_suffix(".why")
        return t.cast(Variables, json.loads(path.read_text() if path.exists() else why.read_text()))

    return of


def names(told: Variables) -> list[str]:
    return [f"{item['name']} {item['version']}" for item in told["chosen"]]


def test_a_profile_of_the_role_is_chosen(played):
    assert names(played("profile")) == ["kueue 0.19.2", "kuberay 1.4.2", "jobset 0.10.1", "lws 0.7.0"]


def test_one_profile_needs_no_list(played):
    assert "trainer 2.1.0" in names(played("one_name"))


def test_wishes_are_laid_over_a_catalogue_of_ones_own(played):
    (gears,) = played("wishes")["chosen"]
    assert gears["values"] == {"a": {"b": 2, "c": [1]}}


def test_versions_of_ones_own_come_first(played):
    assert names(played("more_versions")) == ["bell 0.2.0"]


def test_the_connection_is_that_of_the_environment(played):
    told = played("profile")
    assert (told["host"], told["token"]) == ("https://api.example:6443", "sesame")


def test_what_only_olm_can_install_is_refused_and_the_rest_can_be_chosen(played):
    assert "Components with the source olm cannot be installed or removed: nfd" in played("olm")["msg"]
    assert names(played("no_olm")) == ["jobset 0.10.1"]


def test_a_run_that_wants_nothing_is_refused(played):
    assert "Nothing is wanted: give a profile" in played("nothing")["msg"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("misspelled", "did you mean gang?"), ("old_server", "it needs Kubernetes >=1.29, the server has 1.20.0")],
)
def test_refusals_are_seen(played, name, told):
    assert told in json.dumps(played(name))


def test_every_variable_is_documented_with_its_default():
    assert set(DEFAULTS) == set(SPECS)
    plain = {
        name: value for name, value in DEFAULTS.items() if name not in ("operator_stack_host", "operator_stack_token")
    }
    assert {name: SPECS[name]["default"] for name in plain} == plain
    readme = (ROLE / "README.md").read_text()
    assert [name for name in DEFAULTS if f"`{name}`" not in readme] == []
