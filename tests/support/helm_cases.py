# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Revisions and Secrets of helm, made without helm."""

from __future__ import annotations

import base64
import gzip
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import HelmMark, HelmRevision

Object = dict[str, t.Any]
COMPONENT, RELEASE, HOME = "widgets", "widget-operator", "home"


def revision(
    number: int, status: str, mark: HelmMark | t.Literal["ours", "older"] | None = "ours", render: str = "r"
) -> HelmRevision:
    """One revision, by default one of ours with a mark of its own."""
    if mark == "ours":
        mark = HelmMark(COMPONENT, render, number)
    elif mark == "older":
        mark = HelmMark(COMPONENT, render, number - 1)
    secret = f"sh.helm.release.v1.{RELEASE}.v{number}"
    return HelmRevision(RELEASE, HOME, number, status, mark, secret, f"uid-{number}")


def release_secret(
    body: Object, status: str = "deployed", number: int = 1, labels: t.Mapping[str, str] | None = None
) -> Object:
    """The Secret in which helm keeps a revision."""
    text = base64.b64encode(gzip.compress(json.dumps(body).encode(), mtime=0))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": f"sh.helm.release.v1.{RELEASE}.v{number}",
            "namespace": HOME,
            "uid": f"uid-{number}",
            "labels": {"owner": "helm", "name": RELEASE, "version": str(number), "status": status, **(labels or {})},
        },
        "data": {"release": base64.b64encode(text).decode()},
    }


def release_body(**more: t.Any) -> Object:
    """What helm keeps of a revision."""
    first = more.pop("first", "2026-11-16T04:00:00Z")
    info = {"first_deployed": first, "last_deployed": "2026-11-16T04:00:00Z", "status": "deployed"}
    chart = {"metadata": {"name": "widget", "version": "1.2.3", "appVersion": "9"}}
    return {"name": RELEASE, "info": {**info, **more.pop("info", {})}, "chart": chart, "version": 1, **more}


def with_status(secret: Object, status: str) -> dict[str, t.Any]:
    """What of a Secret changes when its revision gets another status."""
    body = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    body["info"]["status"] = status
    number = int(secret["metadata"]["labels"]["version"])
    made = release_secret(body, status, number)
    labels = {**secret["metadata"]["labels"], "status": status}
    return {"data": made["data"], "metadata": {**secret["metadata"], "labels": labels}}
