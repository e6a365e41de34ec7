# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The package sources for test images are those of the machine's own release, in whatever form they are written."""

from __future__ import annotations

from ansible_collections.muster.kube.tests.support.images import debian_sources

STANZAS = """Types: deb
# a comment
URIs: http://deb.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://node.example
Suites: nodistro
Components: main
"""
LINES = """# deb http://old.example bookworm main
deb http://deb.example/security bookworm-security main contrib
deb [arch=amd64 signed-by=/k.gpg] http://other.example bookworm main
deb http://cloud.example/apt cloud-bookworm main
deb-src http://deb.example/debian bookworm main
"""


def test_stanzas_of_the_release_are_kept_and_others_left_out():
    found = debian_sources([STANZAS], "bookworm")
    assert "Suites: bookworm bookworm-updates" in found
    assert "example/debian" in found
    assert "node.example" not in found
    assert "comment" not in found


def test_lines_become_stanzas():
    first, second = debian_sources([LINES], "bookworm").strip().split("\n\n")
    assert first.splitlines() == [
        "Types: deb",
        "URIs: http://deb.example/security",
        "Suites: bookworm-security",
        "Components: main contrib",
    ]
    assert "Signed-By: /k.gpg" in second
