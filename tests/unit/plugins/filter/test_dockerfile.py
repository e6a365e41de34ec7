# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter dockerfile."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.dockerfile import FilterModule, dockerfile

STACK = {"base": "debian", "files": [{"path": "/a", "content": "né", "mode": "0600"}]}


def test_it_shows_the_dockerfile() -> None:
    assert dockerfile(STACK) == 'FROM debian\nCOPY --chmod=0600 ["files/0001", "/a"]\n'


def test_it_shows_the_context_when_asked() -> None:
    found = t.cast("dict[str, t.Any]", dockerfile(STACK, context=True))
    assert found["dockerfile"] == dockerfile(STACK)
    assert found["files"] == [{"name": "files/0001", "size": 3, "mode": "0600"}]
    assert len(found["spec_hash"]) == 64


@pytest.mark.parametrize("value", ["debian", None, 3, [], {}, {"base": "debian", "x": 1}])
def test_errors_become_filter_errors(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"muster\.kube\.dockerfile: Cannot read the stack"):
        dockerfile(value)


def test_it_is_registered_under_its_name() -> None:
    assert FilterModule().filters() == {"dockerfile": dockerfile}
