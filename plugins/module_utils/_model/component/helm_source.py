# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A component that is installed by helm: which chart with which values, and what of it nobody may see."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import re
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

HIDDEN = "(not shown)"
OCI = "oci://"
# Hiding a very short text would hide it inside ordinary words.
_SHORTEST_SECRET = 4
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# What helm takes as the name of a release.
_RELEASE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RELEASE_LENGTH = 53


@dataclasses.dataclass(frozen=True, slots=True)
class HelmSource:
    """What a task says of a chart and its release."""

    # The component, whose name the release carries on its mark.
    component: str
    # A folder, an archive, a reference such as oci://host/chart, or the name of a chart in a repository.
    chart: str
    release: str
    namespace: str
    version: str | None = None
    # The address of a repository.
    repository: str | None = None
    # sha256:… of the archive or, for a reference, of its manifest; of a folder that of all its files.
    digest: str | None = None
    values: Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    # Laid over the values.
    secret_values: Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The release in messages."""
        return f"{self.namespace}/{self.release}"

    def check(self) -> None:
        """Refuse what helm would refuse later, or take for an option."""
        where = f"component {self.component}"
        if not _RELEASE.fullmatch(self.release) or len(self.release) > _RELEASE_LENGTH:
            cause = (
                f"{self.release!r} is no name of a release: at most {_RELEASE_LENGTH} small letters, digits and dashes"
            )
            raise BadInput("read", f"{where}: release", cause)
        if self.digest is not None and not _DIGEST.fullmatch(self.digest):
            raise BadInput("read", f"{where}: digest", f"{self.digest!r} is not sha256: and 64 hexadecimal digits")
        for field in ("chart", "version", "repository", "namespace"):
            value = getattr(self, field)
            if value is not None and (not value or value.startswith("-") or "\0" in value):
                raise BadInput("read", f"{where}: {field}", f"{value!r} is none")

    def merged_values(self) -> dict[str, t.Any]:
        """All values, as helm lays one file over another."""
        return merged(self.values, self.secret_values)

    def secrets(self) -> frozenset[str]:
        """The texts that nobody may see, also in the form in which Secrets have them."""
        texts = {text for text in _texts(self.secret_values) if len(text) >= _SHORTEST_SECRET}
        lines = {line.strip() for text in texts for line in text.splitlines()}
        coded = {base64.b64encode(text.encode()).decode() for text in texts}
        return frozenset(texts | coded | {line for line in lines if len(line) >= _SHORTEST_SECRET})


def merged(below: Mapping[str, t.Any], above: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Mappings are laid over each other key by key, anything else is replaced whole."""
    found = dict(below)
    for key, value in above.items():
        old = found.get(key)
        found[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return found


def hide(text: str, secrets: collections.abc.Iterable[str]) -> str:
    """A text for everybody to see; longer secrets first, since a shorter one may be a part of them."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _texts(value: t.Any) -> t.Iterator[str]:
    """All texts in a value, and its numbers as texts."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
