# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts of batches as earlier versions and others may have written them."""

from __future__ import annotations

import json
import typing as t
import zlib

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import demand_digest
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json

PODSETS: list[dict[str, t.Any]] = [{"name": "w", "count": 1, "requests": {"cpu": "1"}}]


def plain_entry(uid: str = "1", podsets: t.Any = (), **changes: t.Any) -> dict[str, t.Any]:
    """An entry of the first format with some keys replaced."""
    return {
        "op": "start",
        "namespace": "team",
        "name": f"gang-{uid}",
        "uid": uid,
        "attempt": 1,
        "digest": "d" * 16,
        "demand": demand_digest(podsets or PODSETS),
        **changes,
    }


def plain_data(*entries: dict[str, t.Any], **changes: t.Any) -> dict[str, t.Any]:
    """A batch of the first format with some keys replaced."""
    return {
        "format": 1,
        "id": "b1",
        "epoch": "e",
        "entries": list(entries) or [plain_entry()],
        "demands": {demand_digest(PODSETS): PODSETS},
        **changes,
    }


def signed(data: dict[str, t.Any]) -> str:
    """The text of a batch of the second format with the checksum that belongs to what it holds now."""
    parts = [data.get(key) for key in ("id", "namespaces", "terms", "demands", "podsets", "entries")]
    return json.dumps({**data, "sum": f"{zlib.crc32(canonical_json(parts).encode()):08x}"})
