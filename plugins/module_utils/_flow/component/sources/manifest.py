# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manifest: objects given inline, in a file, or at an address."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from urllib.error import URLError

from ansible.module_utils.urls import ConnectionError as UrlConnectionError
from ansible.module_utils.urls import open_url
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import checked_definitions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.source import (
    Rendered,
    is_address,
    rendered,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import ManifestSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

# The largest manifests of operators have a few megabytes, nearly all of it definitions of kinds.
MOST_BYTES = 32 * 1024 * 1024
_FETCH_SECONDS = 60
_SCHEMES = ("https://", "http://")


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a component."""

    source: ManifestSource
    where: str

    def render(self) -> Rendered:
        """The objects as they are given."""
        src = self.source.src
        if src is None or not is_address(src):
            return rendered(checked_definitions(self.source.definition, src, self.where))
        return rendered(checked_definitions(_fetched(src, self.where), None, self.where))


def _fetched(url: str, where: str) -> str:
    """The text at an address, opened with Ansible's means, which know proxies and certificates of the machine."""
    target = f"{where}: src {url}"
    if not url.startswith(_SCHEMES):
        raise BadInput("fetch", target, f"the address begins with none of {' and '.join(_SCHEMES)}")
    try:
        with contextlib.closing(open_url(url, timeout=_FETCH_SECONDS, http_agent="muster.kube")) as answer:
            found: bytes = t.cast(bytes, answer.read(MOST_BYTES + 1))
    except (OSError, URLError, ValueError, UrlConnectionError) as error:
        raise MusterError("fetch", target, str(error)) from error
    if len(found) > MOST_BYTES:
        raise MusterError("fetch", target, f"it is larger than {MOST_BYTES} bytes")
    return found.decode(errors="replace")
