# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the settings of sizes that a cycle keeps to; they lie beside the Lease, and only elastic gangs ask for them."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import Lists
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import SizeRules
from ansible_collections.muster.kube.plugins.module_utils._store.size_settings import (
    SETTINGS_LABEL,
    StoredSettings,
    decode_settings,
    settings_name,
)

_NONE_STORED = SizeRules(version="")


def read_size_rules(lists: Lists, lease: LeaseOptions) -> SizeRules:
    """The settings beside a Lease, the defaults if there are none; whoever may not read them resizes nothing."""
    name = settings_name(lease)
    path = resource_path("v1", "configmaps", lease.namespace)
    try:
        found = lists.list(path, keep=decode_settings, essence=_text_of, label_selector=SETTINGS_LABEL).items
    except NotFound:
        return _NONE_STORED
    except Forbidden as error:
        return SizeRules(version="", problem=f"ConfigMap {lease.namespace}/{name} may not be read: {error}")
    return next((item.rules for item in found if item.name == name), _NONE_STORED)


def _text_of(stored: StoredSettings) -> object:
    return stored.raw.get("data")
