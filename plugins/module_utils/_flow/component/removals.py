# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a component can go: not what others need, and its own objects of kinds that it defines with the rest."""

from __future__ import annotations

import collections.abc
import functools

from ansible_collections.muster.kube.plugins.module_utils._kube.apply import DEFINITION, NAMESPACE, Label, Object
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import (
    MANAGED_KINDS,
    is_going,
    list_defined,
    list_in,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    WRAPPER_API,
    WRAPPER_KIND,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import COMPONENT_RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import MANAGED_LABEL, MANAGER

# What users have recorded: builds and inspections, gangs, quota trees, and components.
_RECORDS = (
    ("v1", "ConfigMap", f"{MANAGED_LABEL}={MANAGER}"),
    ("v1", "ConfigMap", RECORD_LABEL),
    ("v1", "ConfigMap", TREE_LABEL),
    ("v1", "ConfigMap", COMPONENT_RECORD_LABEL),
    (WRAPPER_API, WRAPPER_KIND, None),
)


def split_removals(
    client: KubeClient, label: Label, found: collections.abc.Iterable[Object], *, every: bool
) -> tuple[list[Object], list[Object]]:
    """What goes, and what stays because something of others would go with it.

    Objects with the label whose kind is defined by one that goes, go too; with every also if the definition stays.
    """
    going: list[Object] = []
    kept: list[Object] = []
    instances: list[Object] = []
    for obj in found:
        # With what somebody has deleted already, all goes that is in it.
        asked = not is_going(obj)
        defined = list_defined(client, obj) if asked and group_and_kind(obj) == DEFINITION else []
        stays = any(not label.is_on(item) for item in defined) or (asked and is_used(client, label, obj))
        (kept if stays else going).append(obj)
        if every or not stays:
            instances += [item for item in defined if label.is_on(item)]
    known = {obj["metadata"]["uid"] for obj in going}
    return going + [obj for obj in instances if obj["metadata"]["uid"] not in known], kept


def is_used(client: KubeClient, label: Label | None, obj: Object, going: collections.abc.Collection[str] = ()) -> bool:
    """Whether an object is a namespace with something recorded in it, or with objects of another component.

    Those that go are none. Without a label only records count.
    """
    if group_and_kind(obj) != NAMESPACE:
        return False
    names = ", ".join(sorted({label.value, *going})) if label is not None else ""
    others = f"{label.key},{label.key} notin ({names})" if label is not None else ""
    labeled = () if label is None else MANAGED_KINDS
    questions = (*_RECORDS, *((api_version, kind, others) for api_version, kind in labeled))
    place = obj["metadata"]["name"]
    return any(parallel([functools.partial(list_in, client, place, *question) for question in questions]))
