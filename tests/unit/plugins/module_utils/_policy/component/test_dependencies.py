# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of components: nothing comes before what it needs, and what cannot be ordered is told with its path."""

from __future__ import annotations

import itertools
import re

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.component.dependencies import in_waves
from hypothesis import given
from hypothesis import strategies as st

NAMES = [f"c{number}" for number in range(8)]


@given(st.permutations(NAMES), st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=20))
def test_what_has_an_order_comes_after_what_it_needs(order, pairs):
    needs = {name: [] for name in NAMES}
    for one, other in pairs:
        later, earlier = sorted((one, other), key=order.index, reverse=True)
        if later != earlier:
            needs[later].append(earlier)
    waves = in_waves(needs)
    assert sorted(name for wave in waves for name in wave) == NAMES
    place = {name: number for number, wave in enumerate(waves) for name in wave}
    for name, wanted in needs.items():
        assert all(place[other] < place[name] for other in wanted)
        # Nobody waits longer than it has to.
        assert place[name] == max((place[other] + 1 for other in wanted), default=0)


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=6),
)
def test_a_cycle_is_told_with_a_path_that_is_one(ring, pairs):
    needs = {name: [] for name in NAMES}
    for one, other in [*zip(ring, [*ring[1:], ring[0]], strict=True), *pairs]:
        needs[one].append(other)
    with pytest.raises(BadInput, match="it is a cycle") as caught:
        in_waves(needs)
    path = re.search(r"it is a cycle: (.*)", str(caught.value))[1].split(" → ")
    assert path[0] == path[-1]
    assert all(other in needs[one] for one, other in itertools.pairwise(path))


def test_what_is_there_already_need_not_be_in_the_task():
    assert in_waves({"a": ["b"]}, ("b",)) == (("a",),)
    with pytest.raises(BadInput, match="there is no component kueu; did you mean kueue"):
        in_waves({"a": ["kueu"], "kueue": []})
