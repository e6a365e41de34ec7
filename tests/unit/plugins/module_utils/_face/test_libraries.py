# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages that must be there."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face import libraries
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary


def test_all_is_there():
    assert libraries.check_libraries() is None


@pytest.mark.parametrize(("name", "library"), [("IMPORT_TRACEBACK", "kubernetes"), ("YAML_IMPORT_ERROR", "PyYAML")])
def test_a_missing_one_is_named(monkeypatch, name, library):
    monkeypatch.setattr(libraries, name, "Traceback")
    with pytest.raises(MissingLibrary, match=library) as caught:
        libraries.check_libraries()
    assert caught.value.traceback == "Traceback"
