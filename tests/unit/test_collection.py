# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the collection says about itself in several places agrees: action group, specs, documentation, README."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import typing as t

import pytest
import yaml
from ansible.module_utils import basic
from ansible.playbook.task import Task

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections.muster.kube"
GROUP = "muster.kube.kube"
MODULES = sorted(path.stem for path in (REPOSITORY / "plugins/modules").glob("*.py"))
DOCUMENTED_FOLDERS = ("modules", "filter", "lookup", "callback", "inventory")
PLUGINS = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for folder in DOCUMENTED_FOLDERS
    for path in (REPOSITORY / "plugins" / folder).glob("*.py")
)


class SpecSeen(BaseException):
    """Carries what a module handed to AnsibleModule, past its own error handling."""


def blocks_of(path: str) -> dict[str, str]:
    """The text blocks at the top of a plugin file."""
    tree = ast.parse((REPOSITORY / path).read_text())
    assignments = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    return {node.targets[0].id: node.value.value for node in assignments}


def read_yaml(name: str) -> t.Any:
    return yaml.safe_load((REPOSITORY / name).read_text())


def read_fragment(name: str) -> dict[str, t.Any]:
    """A documentation fragment by its full name, such as muster.kube.attributes.info."""
    namespace, collection, plugin, *part = name.split(".")
    module = importlib.import_module(f"ansible_collections.{namespace}.{collection}.plugins.doc_fragments.{plugin}")
    return yaml.safe_load(getattr(module.ModuleDocFragment, (part or ["documentation"])[0].upper()))


def documentation_of(module: str) -> dict[str, t.Any]:
    """A module's documentation with its fragments merged in, as ansible-doc does."""
    own = yaml.safe_load(blocks_of(f"plugins/modules/{module}.py")["DOCUMENTATION"])
    fragments = [read_fragment(name) for name in own.get("extends_documentation_fragment", [])]
    merged: dict[str, t.Any] = dict(own)
    for part in ("options", "attributes"):
        merged[part] = {}
        for source in [*fragments, own]:
            for name, text in (source.get(part) or {}).items():
                merged[part][name] = {**merged[part].get(name, {}), **text}
    return merged


def specification_of(module: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, t.Any]:
    """The arguments with which a module makes its AnsibleModule."""

    def capture(self: t.Any, *positional: t.Any, **named: t.Any) -> None:
        raise SpecSeen({**dict(zip(["argument_spec"], positional, strict=False)), **named})

    monkeypatch.setattr(basic.AnsibleModule, "__init__", capture)
    with pytest.raises(SpecSeen) as seen:
        importlib.import_module(f"{COLLECTION}.plugins.modules.{module}").main()
    return seen.value.args[0]


def group_members() -> set[str]:
    entries = read_yaml("meta/runtime.yml")["action_groups"]["kube"]
    return {entry for entry in entries if isinstance(entry, str)}


def test_the_group_extends_that_of_kubernetes_core():
    entries = read_yaml("meta/runtime.yml")["action_groups"]["kube"]
    assert [entry["metadata"]["extend_group"] for entry in entries if isinstance(entry, dict)] == [
        ["kubernetes.core.k8s"]
    ]


def test_the_group_names_existing_modules_only():
    assert group_members() <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_options_are_documented_exactly(module, monkeypatch):
    documented = documentation_of(module)["options"]
    assert set(specification_of(module, monkeypatch)["argument_spec"]) == set(documented)


@pytest.mark.parametrize("module", MODULES)
def test_modules_with_connection_options_are_in_the_group_and_say_so(module, monkeypatch):
    connects = {"api_key", "context", "impersonate_user"} <= set(specification_of(module, monkeypatch)["argument_spec"])
    membership = documentation_of(module)["attributes"].get("action_group", {}).get("membership", [])
    assert (module in group_members()) == connects
    assert (GROUP in membership) == connects


@pytest.mark.parametrize("module", MODULES)
def test_check_mode_is_documented_as_it_is(module, monkeypatch):
    supported = specification_of(module, monkeypatch).get("supports_check_mode", False)
    attributes = documentation_of(module)["attributes"]
    assert attributes["check_mode"]["support"] in (("full", "partial") if supported else ("none",))
    assert {"check_mode", "diff_mode", "idempotent"} <= set(attributes)
    assert all(attribute.get("support") for name, attribute in attributes.items() if name != "action_group")


@pytest.mark.parametrize("module", [name for name in MODULES if name.endswith("_info")])
def test_reading_modules_support_check_mode(module, monkeypatch):
    assert specification_of(module, monkeypatch)["supports_check_mode"] is True


@pytest.mark.parametrize("path", PLUGINS)
def test_every_plugin_documents_itself_with_examples_and_results(path):
    blocks = blocks_of(path)
    assert {"DOCUMENTATION", "EXAMPLES", "RETURN"} <= set(blocks)
    assert isinstance(yaml.safe_load(blocks["EXAMPLES"]), list)
    assert isinstance(yaml.safe_load(blocks["RETURN"]), dict)


@pytest.mark.parametrize("path", PLUGINS)
def test_examples_use_full_names(path):
    entries = yaml.safe_load(blocks_of(path)["EXAMPLES"])
    tasks = [task for entry in entries for task in entry.get("tasks", [entry])]
    actions = [set(task) - set(Task.fattributes) for task in tasks]
    assert all(len(action) == 1 and next(iter(action)).count(".") >= 2 for action in actions), actions


@pytest.mark.parametrize("path", PLUGINS)
def test_the_readme_names_every_plugin(path):
    assert pathlib.Path(path).stem.removesuffix("_info") in (REPOSITORY / "README.md").read_text()


def test_the_readme_names_the_versions_that_the_metadata_name():
    galaxy, readme = read_yaml("galaxy.yml"), (REPOSITORY / "README.md").read_text()
    oldest = re.fullmatch(r">=([0-9.]+)", read_yaml("meta/runtime.yml")["requires_ansible"]).group(1)
    dependency = re.fullmatch(r">=([0-9.]+)", galaxy["dependencies"]["kubernetes.core"]).group(1)
    assert f"ansible-core {oldest} or newer" in readme
    assert f"`kubernetes.core` {dependency} or newer" in readme
    assert f"muster-kube-{galaxy['version']}.tar.gz" in readme


def test_no_sanity_test_is_ignored():
    assert list((REPOSITORY / "tests/sanity").glob("ignore*")) == []


def test_requirements_of_an_execution_environment_have_lower_bounds_only():
    lines = (REPOSITORY / "meta/ee-requirements.txt").read_text().splitlines()
    requirements = [line for line in lines if line and not line.startswith("#")]
    assert len(requirements) >= 3
    assert all(re.fullmatch(r"[A-Za-z]+>=[0-9.]+", line) for line in requirements)
