# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of dispatch, and what they become."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.modules.dispatch import FACE
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions


def read(**options):
    """The dispatcher's options behind those of a task."""
    checked = ModuleArgumentSpecValidator(FACE.spec).validate(options)
    assert checked.error_messages == []
    return FACE.options(checked.validated_parameters, False)


def test_the_defaults_are_those_of_the_dispatcher():
    assert read() == DispatchOptions()


def test_everything_can_be_set():
    terms = read(
        duration="1h",
        policy="strict",
        reserve_after="10m",
        hold="hard",
        lease={"namespace": "team", "seconds": 5},
        namespaces=["b", "a", "b"],
        max_starts=3,
        bind_timeout=30,
        start_timeout="2m",
        decision_log="/var/log/decisions",
        lease_timeout="90",
        adopt=True,
        keep_finished=0,
        keep_finished_for="12h",
        accrue_seconds="5m",
    )
    assert terms == DispatchOptions(
        policy="strict",
        reserve_after=600.0,
        hold="hard",
        lease=LeaseOptions("team", "dispatch", 5.0),
        lease_wait=90.0,
        namespaces=("b", "a"),
        max_starts=3,
        bind_timeout=30.0,
        start_timeout=120.0,
        duration=3600.0,
        decision_log="/var/log/decisions",
        adopt=True,
        keep_finished=0,
        keep_finished_for=43200.0,
        accrue_seconds=300.0,
    )


def test_finished_gangs_may_be_kept_without_limit():
    terms = read(keep_finished=-1, keep_finished_for="-1")
    assert (terms.keep_finished, terms.keep_finished_for) == (None, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"namespaces": []}, "leave the option out to mean all namespaces"),
        ({"max_starts": -1}, "max_starts"),
        ({"keep_finished": -2}, "-1 for no limit"),
        ({"keep_finished_for": "-2"}, "keep_finished_for"),
        ({"accrue_seconds": "0.5"}, "accrue_seconds"),
        ({"lease": {"seconds": 0.5}}, "lease.seconds"),
        ({"duration": "long"}, "duration"),
    ],
)
def test_values_that_make_no_sense(options, words):
    with pytest.raises(BadInput, match=words):
        read(**options)


@pytest.mark.parametrize(("option", "value"), [("policy", "random"), ("hold", "tight"), ("max_starts", "few")])
def test_unknown_words(option, value):
    assert ModuleArgumentSpecValidator(FACE.spec).validate({option: value}).error_messages


def test_the_connection_options_are_all_there():
    assert auth_argument_spec().items() <= FACE.spec.items()
