# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every key of a result is documented, and every documented key is one that the code writes."""

from __future__ import annotations

import ast
import functools
import importlib
import pathlib

import pytest
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FLOW = REPOSITORY / "plugins/module_utils"
# What Ansible tells of a task that runs in the background; a result of ours in these words ends it as a failure.
OF_ASYNC = {"started", "finished", "ansible_job_id", "results_file"}
# Keys that Ansible itself knows.
USUAL = {"changed", "diff", "failed", "msg", "warnings", "error", "ran"}
# Which functions put the keys of a result together; those of one dictionary literal each.
WRITERS: dict[str, list[tuple[str, str]]] = {
    "checkpoint": [("_flow/elastic/checkpoint.py", "as_result")],
    "component": [("_flow/component/run.py", "as_result")],
    "component_info": [("_flow/component/info.py", "answer_components")],
    "dispatch": [("_flow/dispatch/run.py", "as_result")],
    "elastic_balance": [("_flow/elastic/balance.py", "as_result")],
    "elastic_job": [("_flow/elastic/job.py", "as_result")],
    "elastic_job_info": [("_flow/elastic/info.py", "answer_jobs")],
    "fit_info": [("_flow/fit/answer.py", "as_result"), ("_flow/quota/verdicts.py", "as_result")],
    "gang": [("_flow/gang/run.py", "as_result")],
    "gang_info": [("_flow/gang/info.py", "answer_gangs")],
    "image_build": [
        ("_policy/image/build_outcome.py", "build_outcome"),
        ("_policy/image/build_outcome.py", "build_times"),
        ("_flow/build/local.py", "_build"),
        ("_flow/build/written_context.py", "write_context"),
    ],
    "image_build_info": [("_flow/build/info.py", "answer_builds")],
    "inspection": [
        ("_flow/inspect/answer.py", "empty_answer"),
        ("_flow/inspect/run.py", "_remove"),
        ("_flow/inspect/cancel.py", "cancel_inspections"),
    ],
    "inspection_info": [("_flow/inspect/info.py", "answer_inspections")],
    "quota": [("_flow/quota/run.py", "as_result"), ("_model/quota/checks.py", "as_result")],
    "quota_info": [("_flow/quota/info.py", "answer_quota")],
    "report": [("_flow/report/write.py", "write_report")],
}


def documented(name: str) -> set[str]:
    """The keys of RETURN."""
    face = importlib.import_module(f"ansible_collections.muster.kube.plugins.modules.{name}")
    return set(yaml.safe_load(face.RETURN))


def returned(path: str, function: str) -> set[str]:
    """The constant keys of the dictionaries that functions of a name give back or begin with."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((FLOW / path).read_bytes())):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            found |= keys_of(node)
    return found


def keys_of(function: ast.FunctionDef) -> set[str]:
    """Keys of the outermost dictionaries in its return statements."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            found |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_results_hold_documented_keys_only(name: str) -> None:
    for path, function in WRITERS[name]:
        unknown = returned(path, function) - documented(name) - USUAL
        assert not unknown, f"{path}: {function} returns {sorted(unknown)}, which RETURN of {name} does not know"


@functools.cache
def texts_in(path: pathlib.Path) -> frozenset[str]:
    """All texts in the code of a file, and all names of arguments it gives."""
    nodes = list(ast.walk(ast.parse(path.read_bytes())))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(texts | {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg})


def texts_of(name: str) -> set[str]:
    """All texts in the code, which a documented key must be one of."""
    shared = (*FLOW.rglob("*.py"), *(REPOSITORY / "plugins").glob("*_utils/*.py"))
    return set().union(*map(texts_in, (*shared, REPOSITORY / f"plugins/modules/{name}.py")))


@pytest.mark.parametrize("name", WRITERS)
def test_documented_keys_are_written_somewhere(name: str) -> None:
    assert documented(name) <= texts_of(name)


@pytest.mark.parametrize("name", sorted(path.stem for path in (REPOSITORY / "plugins/modules").glob("*.py")))
def test_results_use_no_word_of_tasks_in_the_background(name: str) -> None:
    assert not documented(name) & OF_ASYNC
