# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Manifests given inline, in a file, and at an address."""

from __future__ import annotations

import io

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources import manifest
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import ManifestSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
URL = "https://example.com/gadgets/install.yaml"


def rendered(**source):
    """What a source renders."""
    return manifest.Manifest(ManifestSource(**source), "component c").render()


@pytest.fixture
def answer(monkeypatch):
    """What the address is answered with; the addresses that were opened."""
    opened = []

    def given(content):
        """From now on."""

        def open_url(url, **_options):
            """One request."""
            opened.append(url)
            if isinstance(content, Exception):
                raise content
            return io.BytesIO(content)

        monkeypatch.setattr(manifest, "open_url", open_url)
        return opened

    return given


def test_a_manifest_is_the_same_wherever_it_lies(tmp_path, answer):
    opened = answer(TEXT.encode())
    (tmp_path / "m.yaml").write_text(TEXT)
    found = [rendered(definition=TEXT), rendered(src=str(tmp_path / "m.yaml")), rendered(src=URL)]
    assert len({item.digest for item in found}) == 1
    assert opened == [URL]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (OSError("no route"), "no route"),
        (b"a: b", "kind"),
        (b"", "it is empty"),
        (b" " * (manifest.MOST_BYTES + 1), "it is larger than"),
    ],
)
def test_what_goes_wrong_is_told_with_the_address_or_the_component(answer, content, told):
    answer(content)
    with pytest.raises(MusterError, match=told) as caught:
        rendered(src=URL)
    assert "component c" in caught.value.target


def test_other_ways_to_address_are_refused_unopened(answer):
    opened = answer(TEXT.encode())
    with pytest.raises(BadInput, match="begins with none of https:// and http://"):
        rendered(src="ftp://example.com/install.yaml")
    assert opened == []
