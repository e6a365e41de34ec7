# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is under way, for whoever reads it without deciding: the batch in the Lease."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_ANNOTATION,
    BatchRead,
    LeaseOptions,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import API_VERSION

Object = dict[str, t.Any]


def read_lease(client: KubeClient, lease: LeaseOptions) -> Object | None:
    """The Lease, empty when there is none yet; None when it may not be read."""
    try:
        return get_object(client, resource_path(API_VERSION, "leases", lease.namespace, lease.name)) or {}
    except Forbidden:
        return None


def batch_of_lease(lease: Object | None) -> BatchRead:
    """The batch in a Lease; nothing when there is none."""
    return read_batch((((lease or {}).get("metadata") or {}).get("annotations") or {}).get(BATCH_ANNOTATION))
