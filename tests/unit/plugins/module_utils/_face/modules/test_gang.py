# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of gang and gang_info: what may be given together, and what it becomes."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.modules.gang import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import given_fields

JOB = {"kind": "Job"}


def check(options):
    """Validate options as a module would."""
    return ModuleArgumentSpecValidator(FACE.spec, **FACE.rules).validate(options)


def read(**options):
    """The flow's options behind those of a task."""
    checked = check(options)
    assert checked.error_messages == []
    return FACE.options(checked.validated_parameters, False)


@pytest.mark.parametrize(
    "options",
    [
        {"definition": JOB},
        {"inline": "kind: Job", "name": "g"},
        {"src": "/tmp/gang.yml"},
        {"name": "g", "state": "absent"},
        {"definition": JOB, "podsets": [{"count": 2, "requests": {"cpu": 1}}], "min_available": {"a": 1}},
        {"gangs": [{"definition": JOB}, {"name": "g", "queue": "q"}], "namespace": "team", "queue": "other"},
    ],
)
def test_accepted(options):
    assert check(options).error_messages == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of the following is required: gangs, definition, src, name"),
        ({"podsets": []}, "one of the following is required"),
        ({"definition": JOB, "src": "/x"}, "mutually exclusive: definition|src"),
        ({"gangs": [], "definition": JOB}, "mutually exclusive: gangs|definition"),
        ({"gangs": [], "name": "g"}, "mutually exclusive: gangs|name"),
        ({"gangs": [], "podsets": []}, "mutually exclusive: gangs|podsets"),
        ({"gangs": [{"queue": "q"}]}, "one of the following is required: definition, src, name"),
        ({"name": "g", "state": "started"}, "state must be one of"),
        ({"name": "g", "wait_for": "gone"}, "wait_for must be one of"),
        ({"name": "g", "requeue": {"growth": "fast"}}, "growth must be one of"),
        ({"name": "g", "requeue": {"speed": 1}}, "speed"),
        ({"name": "g", "lease": {"holder": "x"}}, "holder"),
    ],
)
def test_refused(options, words):
    assert words in " ".join(check(options).error_messages)


def test_defaults():
    assert read(name="g") == GangOptions(
        state="present",
        gangs=(GangAsk(GangSource("g")),),
        store="auto",
        replace=False,
        rerun=False,
        wait=True,
        wait_for=None,
        wait_timeout=120.0,
        wait_sleep=1.0,
        dispatch=False,
        lease=LeaseOptions(),
        check_mode=False,
    )


def test_durations_are_read():
    values = read(name="g", wait_timeout="1h30m", wait_sleep=0.5)
    assert (values.wait_timeout, values.wait_sleep) == (5400.0, 0.5)
    with pytest.raises(BadInput, match="wait_timeout"):
        read(name="g", wait_timeout="soon")


def test_settings_beside_a_list_hold_for_entries_that_say_nothing():
    values = read(
        gangs=[{"definition": JOB}, {"name": "b", "queue": "own", "priority": 0}],
        namespace="team",
        queue="shared",
        priority=5,
    )
    assert values.gangs == (
        GangAsk(GangSource(namespace="team", definition=JOB), GangSettings(queue="shared", priority=5)),
        GangAsk(GangSource("b", "team"), GangSettings(queue="own", priority=0)),
    )


def test_empty_places_are_left_out():
    values = read(
        definition=JOB,
        requeue={"limit": 0},
        exit_codes={"terminal": [3]},
        completion=[{"item": 0, "type": "Done"}],
        podsets=[{"requests": {"cpu": 1}}],
    )
    (gang,) = values.gangs
    assert gang.settings.requeue == {"limit": 0}
    assert gang.settings.exit_codes == {"terminal": [3]}
    assert gang.settings.completion == ({"item": 0, "type": "Done"},)
    assert gang.source.podsets == ({"requests": {"cpu": 1}, "count": 1},)
    assert list(given_fields(gang.settings)) == ["requeue", "completion", "exit_codes"]


@pytest.mark.parametrize(("given", "found"), [("3", 3), (3, 3), ({"a": 1}, {"a": 1}), ("many", "many")])
def test_a_templated_number_is_one(given, found):
    assert read(definition=JOB, min_available=given).gangs[0].settings.min_available == found


def test_the_connection_options_are_all_there():
    assert auth_argument_spec().items() <= FACE.spec.items()
