# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of elastic_job and elastic_job_info, and what they become."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.gang_settings import resize_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.modules import gang
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic import elastic_job_info
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic.elastic_job import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

JOB = {"kind": "Job"}
BATCH = {"value": 64, "per_device_env": "B", "accumulation_env": None}


def check(**options):
    """Validate options as a module would."""
    return ModuleArgumentSpecValidator(FACE.spec, **FACE.rules).validate(options)


def elastic(**options):
    """The terms that the flow gets."""
    checked = check(definition=JOB, **options)
    assert checked.error_messages == []
    return FACE.options(checked.validated_parameters, False).gangs[0].settings.elastic


@pytest.mark.parametrize(
    ("options", "terms"),
    [
        ({}, {}),
        ({"range": {"min": 2, "max": 4}, "size": "auto"}, {"range": {"min": 2, "max": 4}}),
        ({"range": {"sizes": [1, 2]}, "size": 2}, {"range": {"sizes": [1, 2]}, "size": 2}),
        ({"size": "8"}, {"size": 8}),
        ({"global_batch": BATCH}, {"range": {"global_batch": {"value": 64, "per_device_env": "B"}}}),
        (
            {"range": {"podset": "worker"}, "global_batch": BATCH},
            {"range": {"podset": "worker", "global_batch": {"value": 64, "per_device_env": "B"}}},
        ),
        (
            {"timing": "now", "checkpoint_timeout": "5m", "cooldown": "0", "restart_cost": "2m"},
            {"timing": "now", "checkpoint_timeout": "5m", "cooldown": "0", "restart_cost": "2m"},
        ),
        # In YAML sizes are numbers.
        ({"profile": {1: 1.0, 4: 2.6}}, {"profile": {"1": 1.0, "4": 2.6}}),
    ],
)
def test_terms_have_the_form_in_which_records_keep_them(options, terms):
    assert elastic(**options) == terms


def test_terms_beside_a_list_hold_for_entries_that_say_nothing():
    jobs = [{"definition": JOB}, {"name": "b", "size": "auto", "timing": "now"}]
    checked = check(jobs=jobs, namespace="team", queue="q", size=4, timing="on_sigterm")
    assert checked.error_messages == []
    assert FACE.options(checked.validated_parameters, False).gangs == (
        GangAsk(
            GangSource(namespace="team", definition=JOB),
            GangSettings(queue="q", elastic={"size": 4, "timing": "on_sigterm"}),
        ),
        GangAsk(GangSource("b", "team"), GangSettings(queue="q", elastic={"timing": "now"})),
    )


@pytest.mark.parametrize("size", ["all", "-1", "2.5", ""])
def test_a_size_is_a_number_or_auto(size):
    with pytest.raises(BadInput, match="a whole number or auto is needed"):
        elastic(size=size)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of the following is required: jobs, definition, src, name"),
        ({"jobs": [], "definition": JOB}, "mutually exclusive: jobs|definition"),
        ({"jobs": [{"queue": "q"}]}, "one of the following is required: definition, src, name"),
        ({"name": "g", "podsets": []}, "podsets"),
        ({"name": "g", "gangs": []}, "gangs"),
        ({"name": "g", "elastic": {}}, "elastic"),
        ({"name": "g", "range": {"global_batch": BATCH}}, "global_batch"),
        ({"name": "g", "global_batch": {"value": 1}}, "missing required arguments: per_device_env"),
        ({"name": "g", "timing": "later"}, "timing must be one of"),
    ],
)
def test_refused(options, words):
    assert words in " ".join(check(**options).error_messages)


def test_whatever_gang_offers_is_offered_but_for_what_has_no_meaning():
    own = {"jobs", "range", "size", "global_batch", *resize_argument_spec()}
    assert set(FACE.spec) - own == set(gang.FACE.spec) - {"gangs", "podsets", "store", "elastic"}
    shared = set(FACE.spec) - own
    assert {name: FACE.spec[name] for name in shared} == {name: gang.FACE.spec[name] for name in shared}
    assert auth_argument_spec().items() <= FACE.spec.items()


def test_the_question_of_elastic_job_info_is_that_of_gang_info():
    face = elastic_job_info.FACE
    checked = ModuleArgumentSpecValidator(face.spec).validate({"namespace": "n", "state": ["running"]})
    assert checked.error_messages == []
    found = face.options(checked.validated_parameters, False)
    assert found == GangInfoOptions(namespace="n", phases=frozenset({"running"}))
    assert face.only_reads
