# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How jobs are told that would become smaller."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import Shrink
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.foresight import shrunk_entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.tests.support import gang_cases as cases


@pytest.mark.parametrize(
    ("namespaces", "named"), [(None, True), ({"a", "b"}, True), ({"b"}, False), (frozenset(), False)]
)
def test_who_may_not_be_named_is_told_by_its_queue(namespaces, named):
    record = record_from_api(cases.gang_record("one", "a", [cases.job("j", None)], queue="research"))
    expected = {"name": "one", "namespace": "a"} if named else {"name": None, "namespace": None}
    assert shrunk_entry(Shrink(record, 4, 2), namespaces) == {**expected, "queue": "research", "from": 4, "to": 2}
