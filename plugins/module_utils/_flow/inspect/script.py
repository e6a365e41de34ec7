# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of an inspection: given in the task, read from a file, or fetched from a URL whose contents are known."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import re
import typing as t
from urllib.error import URLError

from ansible.module_utils.urls import ConnectionError as UrlConnectionError
from ansible.module_utils.urls import open_url
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import ScriptSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

# What fits a ConfigMap together with the collector and some files.
MOST_BYTES = 768 * 1024
_FETCH_SECONDS = 30
_CHECKSUM = re.compile(r"sha256:([0-9a-f]{64})")


class Answer(t.Protocol):
    """What a URL is answered with."""

    def read(self, amount: int) -> bytes:
        """At most so many bytes of the body."""

    def close(self) -> None:
        """Let go of the connection."""


Fetch = t.Callable[[str], Answer]


def fetch_url(url: str) -> Answer:
    """Open a URL with Ansible's means, which know proxies and certificates of the machine."""
    answer: Answer = open_url(url, timeout=_FETCH_SECONDS, http_agent="muster.kube")
    return answer


def read_script(source: ScriptSource | None, *, fetch: Fetch = fetch_url) -> bytes | None:
    """The bytes of the script; None when none was given, so that there is nothing to run."""
    if source is None:
        return None
    if source.script is not None:
        return _bounded(source.script.encode(), "script")
    if source.src is not None:
        try:
            return _bounded(pathlib.Path(source.src).read_bytes(), f"src {source.src}")
        except OSError as error:
            raise BadInput("read", f"src {source.src}", error.strerror or str(error)) from error
    return None if source.url is None else _fetched(source.url, source.checksum, fetch)


def _fetched(url: str, checksum: str | None, fetch: Fetch) -> bytes:
    """The contents of a URL, refused when they are not those the checksum stands for."""
    wanted = _CHECKSUM.fullmatch((checksum or "").lower())
    if wanted is None and checksum is not None:
        raise BadInput("read", "checksum", f"sha256: and 64 hexadecimal digits are needed, not {checksum!r}")
    try:
        with contextlib.closing(fetch(url)) as answer:
            found = _bounded(answer.read(MOST_BYTES + 1), f"url {url}")
    except (OSError, URLError, ValueError, UrlConnectionError) as error:
        raise MusterError("fetch", f"url {url}", str(error)) from error
    digest = hashlib.sha256(found).hexdigest()
    if wanted is None:
        cause = f"another script may lie there tomorrow; if this is the one you mean, give checksum: sha256:{digest}"
        raise BadInput("use", f"url {url}", cause)
    if digest != wanted[1]:
        raise MusterError("use", f"url {url}", f"its sha256 is {digest}, not {wanted[1]}")
    return found


def _bounded(found: bytes, where: str) -> bytes:
    """A script that fits where it has to go, and that is not empty."""
    if not found:
        raise BadInput("read", where, "the script is empty")
    if len(found) > MOST_BYTES:
        raise BadInput("read", where, f"it has more than {MOST_BYTES} bytes")
    return found
