# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of an inspection: inline, from a file, from a URL."""

from __future__ import annotations

import hashlib
import io

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import script as script_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import ScriptSource
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.script import MOST_BYTES, read_script
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

TEXT = b"echo hi\n"
CHECKSUM = f"sha256:{hashlib.sha256(TEXT).hexdigest()}"
URL = "https://example.com/script"


def fetch(content):
    return lambda _url: io.BytesIO(content)


def test_none_means_that_there_is_nothing_to_run():
    assert read_script(None) is None


def test_an_inline_script_is_taken_as_it_is():
    assert read_script(ScriptSource("grüße\r\n")) == "grüße\r\n".encode()


def test_a_file_is_read_byte_for_byte(tmp_path):
    path = tmp_path / "s"
    path.write_bytes(b"\xff\x00\n")
    assert read_script(ScriptSource(src=str(path))) == b"\xff\x00\n"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"src .*/none: No such file"):
        read_script(ScriptSource(src=str(tmp_path / "none")))


def test_a_url_is_fetched_and_checked():
    assert read_script(ScriptSource(url=URL, checksum=CHECKSUM.upper()), fetch=fetch(TEXT)) == TEXT


def test_other_contents_are_refused():
    with pytest.raises(MusterError, match="its sha256 is"):
        read_script(ScriptSource(url=URL, checksum=CHECKSUM), fetch=fetch(b"rm -rf /"))


def test_without_a_checksum_the_one_found_is_told():
    with pytest.raises(BadInput, match=f"give checksum: {CHECKSUM}"):
        read_script(ScriptSource(url=URL, checksum=None), fetch=fetch(TEXT))


def test_a_checksum_must_look_like_one():
    with pytest.raises(BadInput, match="checksum"):
        read_script(ScriptSource(url=URL, checksum="md5:1"), fetch=fetch(TEXT))


def test_a_url_that_cannot_be_fetched_is_named():
    def fail(_url):
        raise OSError("no route")

    with pytest.raises(MusterError, match=r"Cannot fetch url https://example\.com/script: no route"):
        read_script(ScriptSource(url=URL, checksum=CHECKSUM), fetch=fail)


@pytest.mark.parametrize("size", [0, MOST_BYTES + 1])
def test_empty_and_endless_scripts_are_refused(size):
    with pytest.raises(BadInput, match=r"empty|more than"):
        read_script(ScriptSource(url=URL, checksum=CHECKSUM), fetch=fetch(b"a" * size))


def test_urls_are_opened_with_a_timeout(monkeypatch):
    asked = {}
    monkeypatch.setattr(script_flow, "open_url", lambda url, **options: asked.update(options, url=url) or io.BytesIO())
    script_flow.fetch_url(URL)
    assert (asked["url"], asked["timeout"]) == (URL, 30)
