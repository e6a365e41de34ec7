# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a gang is made of, out of the options of a task."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.gang_source import (
    gang_source,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource

UNSET = dict.fromkeys(("name", "namespace", "definition", "src", "podsets"))


def test_the_common_namespace_is_used_where_a_gang_has_none():
    assert gang_source({**UNSET, "definition": []}, "common").namespace == "common"
    assert gang_source({**UNSET, "definition": [], "namespace": "own"}, "common").namespace == "own"
    assert gang_source(UNSET, None).namespace is None


def test_empty_places_of_podsets_are_left_out_and_an_empty_list_is_not_none():
    podset = {"name": None, "count": 2, "requests": {"cpu": 1}, "limits": None}
    found = gang_source({**UNSET, "name": "g", "podsets": [podset]}, None)
    assert found == GangSource("g", podsets=({"count": 2, "requests": {"cpu": 1}},))
    assert gang_source({**UNSET, "podsets": []}, None).podsets == ()
