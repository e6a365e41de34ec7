# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of names that do not exist."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.nearest import nearest_hint, unknown_name


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("bleu", ["red", "blue"], "did you mean blue?"),
        ("x", ["red", "blue"], "known are blue, red"),
        ("x", [], "there is none at all"),
        ("?", [f"n{number:02}" for number in range(12)], "n08, n09 and 2 more"),
    ],
)
def test_hints(name, known, words):
    assert nearest_hint(name, known).endswith(words)


def test_errors_name_what_was_looked_for():
    error = unknown_name("find", "queue", "bleu", ["blue"])
    assert str(error) == "Cannot find queue bleu: it does not exist; did you mean blue?"
