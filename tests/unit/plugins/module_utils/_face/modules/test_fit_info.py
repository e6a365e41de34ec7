# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of fit_info: what may and may not be given together."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.modules.fit_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import FitOptions, GangSource


def check(options):
    """Validate options as a module would."""
    return ModuleArgumentSpecValidator(FACE.spec, **FACE.rules).validate(options)


@pytest.mark.parametrize(
    "options",
    [
        {"definition": {"kind": "Pod"}},
        {"inline": "kind: Pod"},
        {"src": "/tmp/gang.yml", "name": "g"},
        {"podsets": [{"requests": {"cpu": 1}}]},
        {"definition": {"kind": "Thing"}, "podsets": [{"count": 2, "requests": {"cpu": 1}}]},
        {"gangs": [{"definition": {"kind": "Pod"}}, {"podsets": [{"count": 1}]}], "namespace": "team"},
    ],
)
def test_accepted(options):
    assert check(options).error_messages == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of the following is required"),
        ({"definition": {}, "src": "/x"}, "mutually exclusive: definition|src"),
        ({"gangs": [], "definition": {}}, "mutually exclusive: gangs|definition"),
        ({"gangs": [], "src": "/x"}, "mutually exclusive: gangs|src"),
        ({"gangs": [], "podsets": []}, "mutually exclusive: gangs|podsets"),
        ({"gangs": [], "name": "x"}, "mutually exclusive: gangs|name"),
        ({"gangs": [{"name": "empty"}]}, "one of the following is required"),
        ({"gangs": [{"definition": {}, "src": "/x"}]}, "mutually exclusive: definition|src"),
        ({"podsets": [{"replicas": 2}]}, "replicas"),
    ],
)
def test_refused(options, words):
    assert words in " ".join(check(options).error_messages)


def test_defaults():
    found = check({"podsets": [{"requests": {"cpu": 1}}]}).validated_parameters
    assert (found["cumulative"], found["advice"], found["podsets"][0]["count"]) == (True, True, 1)


def test_options_become_typed():
    gangs = [{"src": "/a"}, {"podsets": [{"requests": {"cpu": 1}}], "namespace": "own", "name": "g"}]
    found = check({"gangs": gangs, "namespace": "team", "cumulative": False}).validated_parameters
    podset = {"count": 1, "requests": {"cpu": 1}}
    assert FACE.options(found, True) == FitOptions(
        (GangSource(namespace="team", src="/a"), GangSource("g", "own", podsets=(podset,))), cumulative=False
    )
    one = check({"definition": "kind: Pod", "name": "g"}).validated_parameters
    assert FACE.options(one, False).gangs == (GangSource("g", definition="kind: Pod"),)


def test_the_connection_options_are_all_there():
    assert auth_argument_spec().items() <= FACE.spec.items()
