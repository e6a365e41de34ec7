# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of inspection_info."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules.inspection_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def test_the_question_of_inspection_info():
    params = {
        "namespace": None,
        "inspection_id": "a",
        "identifier": None,
        "logs": True,
        "phase": ["Failed"],
        "limit": 3,
    }
    found = FACE.options({**params, "label_selectors": ["a=b", "c"], "log_bytes": 10}, False)
    assert (found.labels, found.inspection_id) == ("a=b,c", "a")
    assert (found.phases, found.limit) == (frozenset({"Failed"}), 3)
    with pytest.raises(BadInput, match="log_bytes"):
        FACE.options({**params, "label_selectors": None, "log_bytes": -1}, False)
    with pytest.raises(BadInput, match="limit"):
        FACE.options({**params, "label_selectors": None, "log_bytes": 1, "limit": 0}, False)
