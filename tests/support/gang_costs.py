# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requests that are about one gang, told apart from those of each cycle."""

from __future__ import annotations

import collections
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import METER_PREFIX
from ansible_collections.muster.kube.plugins.module_utils._model.quota.status import STATUS_PREFIX
from ansible_collections.muster.kube.tests.support.api_proxy import Recorded, RequestBook
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.gang_cases import service
from ansible_collections.muster.kube.tests.support.wrapper_crd import CRD_PATH

Store = t.Literal["configmap", "appwrapper"]

STORES: tuple[Store, ...] = ("configmap", "appwrapper")


def queue_gang(stage: Stage, store: Store, size: int, **settings: t.Any) -> None:
    """Queue a gang of so many objects of which one makes pods."""
    objects = [service(f"gang-{number}") for number in range(size - 1)] + [stage.job("gang", 2, **settings)]
    if store == "configmap":
        stage.submit("gang", *objects)
    else:
        stage.wrap("gang", *objects, scheduling=None)


def counted(proxy: RequestBook, stage: Stage) -> collections.Counter[str]:
    """The requests that are about one gang, by method and last part of the path; dry runs are told apart."""
    found: collections.Counter[str] = collections.Counter()
    for request in proxy.requests:
        if _is_counted(request, stage):
            kind = "dry run" if request.dry_run else request.method
            found[f"{kind} {request.path.rpartition(f'/{stage.namespace}/')[2].partition('/')[0]}"] += 1
    return found


def _is_counted(request: Recorded, stage: Stage) -> bool:
    """Whether a request belongs to a gang and not to the cycle: lists, watches, Events, discovery and the Lease do not.

    A GET of one object counts; only those of the AppWrapper definition and of the history are made once for each run.
    """
    if request.path in (stage.lease_path, CRD_PATH) or request.path.endswith("/events"):
        return False
    if request.path.startswith(resource_path("v1", "configmaps", stage.lease.namespace)):
        # The history of run times, which many gangs share.
        return False
    if request.method != "GET":
        return True
    parts = request.path.strip("/").split("/")
    return "namespaces" in parts and len(parts) - parts.index("namespaces") > 3


def quota_writes(proxy: RequestBook, stage: Stage) -> collections.Counter[str]:
    """The writes that a quota tree brings, which are no gang's: what queues used over time, and published amounts."""
    home = f"{resource_path('v1', 'configmaps', stage.lease.namespace)}/"
    found: collections.Counter[str] = collections.Counter()
    for request in proxy.writes:
        # What is new is created by its collection's path.
        name = request.path.removeprefix(home) if request.path.startswith(home) else _created_name(request, home)
        for prefix, kind in ((METER_PREFIX, "meter"), (STATUS_PREFIX, "status")):
            if name.startswith(prefix):
                found[kind] += 1
    return found


def _created_name(request: Recorded, home: str) -> str:
    """The name of an object that a request creates in a collection."""
    if request.path != home.rstrip("/") or request.method != "POST":
        return ""
    return str(json.loads(request.body)["metadata"]["name"])


def costs_of_start(store: Store, size: int) -> collections.Counter[str]:
    """What the start of a gang of so many objects costs."""
    record = "configmaps" if store == "configmap" else "appwrappers"
    expected = collections.Counter({"dry run jobs": 1, "POST jobs": 1, "POST configmaps": 1})
    expected[f"PUT {record}"] += 1 if store == "configmap" else 2
    if size > 1:
        expected.update({"dry run services": size - 1, "POST services": size - 1})
    return expected
