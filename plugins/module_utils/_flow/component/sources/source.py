# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the objects of a component come from: each source renders them, without asking a cluster for anything.

Charts are rendered against a cluster, and are not among these.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.object_changes import without_secrets
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, versionless_key

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://.+")


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of a component, and the digest by which the same objects are known again."""

    objects: tuple[Object, ...]
    digest: str


class ComponentSource(t.Protocol):
    """A source of objects."""

    def render(self) -> Rendered:
        """All objects, checked for what would make them unusable."""


def rendered(objects: collections.abc.Iterable[Object]) -> Rendered:
    """Objects with their digest, in which neither their order counts nor what Secrets hold.

    Everybody may see the digest, and who guesses a secret value could see by it that he is right.
    """
    found = tuple(objects)
    shown = [without_secrets(obj.get("kind"), obj, {})[0] for obj in sorted(found, key=versionless_key)]
    text = canonical_json(shown)
    return Rendered(found, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")


def is_address(src: str) -> bool:
    """Whether a source lies somewhere else than on this machine."""
    return _ADDRESS.fullmatch(src) is not None
