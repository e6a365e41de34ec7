# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of the dispatcher sees of the records of others."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Sight


@pytest.mark.parametrize(
    ("namespaces", "blind", "own", "other"),
    [(None, None, True, True), (("team",), None, True, True), (("team",), "forbidden", True, False)],
)
def test_an_account_without_rights_sees_its_own_namespaces_only(namespaces, blind, own, other):
    sight = Sight(namespaces, (), blind=blind)
    assert (sight.sees("team"), sight.sees("else")) == (own, other)
    assert sight.unseen() == ([] if blind is None else ["records and tickets of other namespaces: forbidden"])
