# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AppWrappers of the second generation (v1beta2, as codeflare-sdk writes them), whose components become a gang.

The wrapper itself is never created: its objects are queued and started as a gang. Its annotations about retries and its
field suspend, by which Kueue admits it, have no meaning here.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import WRAPPER_KIND
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import OWN_PREFIX
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import NeedsPodsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields, plain_value

COMPONENTS_API = "workload.codeflare.dev/v1beta2"
_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def is_component_wrapper(obj: Mapping[str, t.Any]) -> bool:
    """Whether an object is an AppWrapper with components."""
    return (obj.get("apiVersion"), obj.get("kind")) == (COMPONENTS_API, WRAPPER_KIND)


def gang_of_components(obj: Mapping[str, t.Any], namespace: str) -> Data:
    """The fields of a gang's specification that the wrapper holds; complaints name the field of the wrapper."""
    metadata = Fields(obj.get("metadata"), f"{WRAPPER_KIND}: metadata")
    where = f"{WRAPPER_KIND} {namespace}/{metadata.get('name')}"
    spec = Fields(plain_value(obj.get("spec"), where, "spec"), f"{where}: spec")
    entries = spec.sequence("components")
    if not entries:
        raise spec.fail("components", "the AppWrapper wraps nothing; give at least one component")
    objects = []
    for index, entry in enumerate(entries):
        component = Fields(entry, f"{spec.where}.components[{index}]")
        template = component.mapping("template")
        if not template:
            raise component.fail("template", "the component holds no object")
        objects.append(dict(template))
    labels = plain_value(metadata.mapping("labels"), where, "metadata.labels")
    return {
        "objects": objects,
        "podsets": _podsets(obj, objects, namespace),
        "queue": labels.get(_KUEUE_QUEUE) or None,
        "labels": {key: value for key, value in labels.items() if not key.startswith(OWN_PREFIX)},
    }


def _podsets(obj: Mapping[str, t.Any], objects: list[Data], namespace: str) -> list[Data] | None:
    """The pods as the components declare them, where a kind is not known; None when all are inferred."""
    try:
        infer_podsets(objects, namespace=namespace)
    except NeedsPodsets:
        return [_declared(podset) for podset in infer_podsets([obj], namespace=namespace)]
    return None


def _declared(podset: PodSet) -> Data:
    """A podset as users declare it."""
    metadata = podset.template.get("metadata") or {}
    return {
        "name": podset.name,
        "count": podset.count,
        "spec": dict(podset.template.get("spec") or {}),
        "labels": dict(metadata.get("labels") or {}),
    }
