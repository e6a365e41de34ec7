# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbers that are read: the smallest and the largest are taken, the next ones are refused."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import spec_of_wrapper
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    new_state,
    read_state,
    state_problem,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.amun import from_amun
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import hardware_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_security import read_security
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.batch_texts import plain_data, plain_entry

Reader = t.Callable[[int], object]

MOST = 2**31 - 1
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


def state(**changes: t.Any) -> object:
    """Read a stored state with some values replaced."""
    data = json.loads(state_text(new_state("2026-01-01T00:00:00Z", "w")))
    annotations = {STATE_ANNOTATION: json.dumps({**data, **changes})}
    if problem := state_problem(annotations):
        raise BadInput("read", "state", problem)
    return read_state(annotations)


def batch(own: t.Mapping[str, t.Any], entry: t.Mapping[str, t.Any]) -> object:
    """Read a stored batch with some values of its own, and of its entry, replaced."""
    found = read_batch(json.dumps(plain_data(plain_entry(**entry), **own)))
    if found.batch is None:
        raise BadInput("read", "batch", str(found))
    return found


def spec(**changes: t.Any) -> object:
    return read_spec({"name": "g", "namespace": "team", "objects": [CONFIG], **changes}, "g")


def amun(**changes: t.Any) -> object:
    return from_amun({"base": "b", "script": "#!/bin/sh\ntrue\n", **changes})


def hardware(**cpu: t.Any) -> object:
    return hardware_from_data({"cpu": cpu}, "h")


def wrapper(scheduling: t.Mapping[str, t.Any], pods: t.Mapping[str, t.Any]) -> object:
    """Read an AppWrapper with one object and these pods."""
    item = {"generictemplate": CONFIG, "custompodresources": [{"requests": {"cpu": "1"}, **pods}]}
    metadata = {"name": "g", "namespace": "team"}
    return spec_of_wrapper({"metadata": metadata, "spec": {**scheduling, "resources": {"GenericItems": [item]}}})


SIZE = {"name": "w", "requests": {}}
READERS: dict[str, tuple[int, int, Reader]] = {
    "priority": (-MOST - 1, MOST, lambda n: spec(priority=n)),
    "min_available": (0, MOST, lambda n: spec(min_available=n)),
    "requeue limit": (0, MOST, lambda n: spec(requeue={"limit": n})),
    "item": (0, 0, lambda n: spec(completion=[{"item": n, "type": "Ready"}])),
    "attempt of a state": (0, MOST, lambda n: state(attempt=n)),
    "requeues": (0, MOST, lambda n: state(requeues=n)),
    "lost races": (0, MOST, lambda n: state(lost_races=n)),
    "made": (0, MOST, lambda n: state(made=n)),
    "reserved": (0, MOST, lambda n: state(reserved=[{**SIZE, "count": n}])),
    "observed": (0, MOST, lambda n: state(observed=[{**SIZE, "count": n}])),
    "attempt of an entry": (0, MOST, lambda n: batch({}, {"attempt": n})),
    "moment of an entry": (0, 2**53, lambda n: batch({}, {"at": n})),
    "patience of an entry": (0, 2**53, lambda n: batch({}, {"patience": n})),
    "begin of unlisted ones": (0, 2**53, lambda n: batch({"unlisted_since": n}, {})),
    "repetitions of a request": (1, MOST + 1, lambda n: amun(batch_size=n)),
    "parallelism of a request": (1, MOST + 1, lambda n: amun(parallelism=n)),
    "failures of a request": (0, MOST + 1, lambda n: amun(allowed_failures=n)),
    "family of a processor": (0, MOST + 1, lambda n: hardware(family=n, vendor="intel")),
    "model of a processor": (0, MOST + 1, lambda n: hardware(model=n, family=6, vendor="intel")),
    "priority of a wrapper": (-MOST - 1, MOST, lambda n: wrapper({"priority": n}, {})),
    "pods of a wrapper": (0, MOST, lambda n: wrapper({}, {"replicas": n})),
    "seconds of a wrapper": (
        -MOST - 1,
        MOST,
        lambda n: wrapper({"schedulingSpec": {"requeuing": {"maxTimeInSeconds": n}}}, {}),
    ),
    "user": (0, MOST + 1, lambda n: read_security({"run_as_user": n}, "s")),
    "group": (0, MOST + 1, lambda n: read_security({"run_as_group": n}, "s")),
}


@pytest.mark.parametrize("name", list(READERS))
def test_numbers_at_their_bounds_are_taken_and_the_next_ones_are_not(name: str) -> None:
    low, high, read = READERS[name]
    for number in (low, high):
        read(number)
    for number in (low - 1, high + 1):
        with pytest.raises(BadInput):
            read(number)


@pytest.mark.parametrize(
    "read",
    [
        lambda value: state(attempt=value),
        lambda value: batch({}, {"attempt": value}),
        lambda value: state(reserved=[{**SIZE, "count": value}]),
        lambda value: spec(completion=[{"item": value, "type": "Ready"}]),
        lambda value: spec(min_available={"c": value}),
    ],
)
def test_numbers_that_have_to_be_there(read: Reader) -> None:
    with pytest.raises(BadInput):
        read(t.cast(int, None))


def test_a_state_holds_no_number_that_json_does_not_know() -> None:
    made = dataclasses.replace(new_state("2026-01-01T00:00:00Z", "w"), verdict={"x": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        state_text(made)
