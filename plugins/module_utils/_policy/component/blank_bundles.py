# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placeholders of certificates: manifests carry them where an operator, or cert-manager, writes the real ones.

Applied as they are they would take the real ones away at each run, and nobody could be verified.
"""

from __future__ import annotations

import base64
import binascii
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, group_and_kind, value_at
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import WEBHOOKS

_FIELD = "caBundle"
_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
_API_SERVICE = ("apiregistration.k8s.io", "APIService")


def without_blank_bundles(obj: Object) -> Object:
    """An object that says nothing about certificates where it holds only a placeholder of them."""
    kind = group_and_kind(obj)
    if kind in WEBHOOKS and isinstance(obj.get("webhooks"), list):
        hooks = [
            {**item, "clientConfig": _without(item["clientConfig"])} if _has_client(item) else item
            for item in obj["webhooks"]
        ]
        return {**obj, "webhooks": hooks}
    if kind == _API_SERVICE and isinstance(obj.get("spec"), Mapping):
        return {**obj, "spec": _without(obj["spec"])}
    client = value_at(obj, ("spec", "conversion", "webhook", "clientConfig")) if kind == _DEFINITION else None
    if not isinstance(client, Mapping):
        return obj
    conversion = obj["spec"]["conversion"]
    webhook = {**conversion["webhook"], "clientConfig": _without(client)}
    return {**obj, "spec": {**obj["spec"], "conversion": {**conversion, "webhook": webhook}}}


def _has_client(item: t.Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("clientConfig"), Mapping)


def _without(client: Mapping[str, t.Any]) -> Object:
    """A mapping without a bundle of nothing but blanks."""
    return {key: value for key, value in client.items() if key != _FIELD or not _is_blank(value)}


def _is_blank(bundle: t.Any) -> bool:
    """Whether a bundle is empty, or nothing but blanks in base64."""
    if not isinstance(bundle, str):
        return bundle is None
    try:
        return not base64.b64decode(bundle, validate=True).strip()
    except (binascii.Error, ValueError):
        return False
