# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A look at everything that is in a cluster, to compare with another one later."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_metadata


def everything(cluster: t.Any) -> set[tuple[str, str, str]]:
    """All objects of all served kinds, but for what the control plane makes and drops all the time."""
    groups = cluster.client.request("GET", "/apis").json()["groups"]
    found = set()
    for version in ("v1", *(group["preferredVersion"]["groupVersion"] for group in groups)):
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for entry in cluster.client.request("GET", base).json()["resources"]:
            if "list" not in entry["verbs"] or entry["kind"] in ("Event", "ComponentStatus", "IPAddress", "Lease"):
                continue
            items = list_metadata(
                cluster.client, f"{base}/{entry['name']}", keep=lambda raw: raw["metadata"], label_selector=None
            ).items
            found |= {(entry["kind"], item.get("namespace", ""), item["name"]) for item in items}
    return found
