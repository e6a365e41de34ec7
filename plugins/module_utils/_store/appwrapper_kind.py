# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose AppWrapper a cluster serves: two products share the name of the kind with schemas of their own."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    MANAGED_LABEL,
    WRAPPER_API,
    WRAPPER_KIND,
)

_GROUP, _VERSION = WRAPPER_API.split("/")
_OTHER_VERSION = "v1beta2"
_CRD = f"appwrappers.{_GROUP}"


def wrappers_served(client: KubeClient) -> bool:
    """Whether AppWrappers of the version we know exist at all on this server."""
    return find_resource(client, WRAPPER_API, WRAPPER_KIND) is not None


def wrapper_problem(client: KubeClient) -> str | None:
    """Why AppWrappers cannot be records here; None when they can, since their definition is ours."""
    group = get_object(client, f"/apis/{_GROUP}") or {}
    versions = [item.get("version") for item in group.get("versions") or ()]
    if _OTHER_VERSION in versions:
        return f"the cluster serves AppWrapper {_OTHER_VERSION}, whose schema is another one"
    if _VERSION not in versions:
        return f"the cluster does not serve AppWrapper {_VERSION}; the role muster.kube.dispatcher installs it"
    path = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions", name=_CRD)
    try:
        crd = get_object(client, path) or {}
    except Forbidden:
        return f"this account may not read the CustomResourceDefinition {_CRD}, so that its owner is unknown"
    labels = (crd.get("metadata") or {}).get("labels") or {}
    if labels.get(MANAGED_LABEL) != "true":
        return (
            f"the CustomResourceDefinition {_CRD} was not installed by this collection (it has no label "
            f"{MANAGED_LABEL}), so that another program may act on AppWrappers"
        )
    return None
