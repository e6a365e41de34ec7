# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observer: a process of its own that watches a cluster and notes when what happened.

It reads its orders as JSON from the first argument, says `ready` when all its watches are open, and when as much as was
wanted has happened it prints the times as one line of JSON and waits until its input is closed. Times are those of the
steady clock, which all processes of a machine share. Only metadata is asked for, so that the API server has little to
do for it:

bound     a pod has a node: the selector `spec.nodeName!=` begins to match it
ended     a pod has succeeded, likewise
created   a Job is there
released  a Job's specification has changed: it is no longer suspended
admitted  a Workload of Kueue has a queue of the cluster in its admission
committed the uid of a gang is in the batch on the dispatcher's Lease
patched   a Job has had a patch of a resize
gone      a pod was deleted

Where nothing in particular is wanted, it watches until it reads a line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import typing as t
from urllib.parse import urlencode

from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import Transport, TransportFault, open_transport
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import RESIZE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
JOB_LABEL = "batch.kubernetes.io/job-name"
WATCH_SECONDS = 3600
TIMEOUT = (10.0, WATCH_SECONDS + 60.0)
PODS, JOBS = "/api/v1/namespaces/{}/pods", "/apis/batch/v1/namespaces/{}/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases"

Noted = t.Iterator[tuple[str, str, str]]


def note_pod(kind: str) -> t.Callable[[dict], Noted]:
    """What the event of a pod says: its name and its Job's."""

    def note(metadata: dict) -> Noted:
        yield kind, metadata["name"], metadata.get("labels", {}).get(JOB_LABEL, "")

    return note


def note_job(metadata: dict) -> Noted:
    """What the event of a Job says."""
    yield "created", metadata["name"], metadata["name"]
    if metadata.get("generation", 1) > 1:
        yield "released", metadata["name"], metadata["name"]


def note_patch(metadata: dict) -> Noted:
    """What the event of a Job says of resizes."""
    mark = (metadata.get("annotations") or {}).get(RESIZE_ANNOTATION)
    if mark:
        yield "patched", f"{metadata['name']} {mark}", metadata["name"]


note_gone = note_pod("gone")


def note_workload(metadata: dict) -> Noted:
    """What the event of an admitted Workload says."""
    yield "admitted", metadata["name"], metadata["ownerReferences"][0]["name"]


def note_lease(metadata: dict) -> Noted:
    """What the event of the Lease says."""
    batch = read_batch((metadata.get("annotations") or {}).get(BATCH_ANNOTATION)).batch
    for entry in batch.entries if batch is not None else ():
        yield "committed", entry.uid, ""


# By name: the collection, the selector of its fields, and what to note of each object.
WATCHES: dict[str, tuple[str, str, t.Callable[[dict], Noted]]] = {
    "bound": (PODS, "spec.nodeName!=", note_pod("bound")),
    "ended": (PODS, "status.phase=Succeeded", note_pod("ended")),
    "jobs": (JOBS, "", note_job),
    "workloads": (WORKLOADS, "status.admission.clusterQueue={}", note_workload),
    "patched": (JOBS, "", note_patch),
    "gone": (PODS, "", note_gone),
    "lease": (LEASES, "metadata.name=dispatch", note_lease),
}


class Observer:
    """Threads that follow one watch each, and what they have seen first and when."""

    def __init__(self, orders: dict[str, t.Any]) -> None:
        """Nothing was seen yet."""
        self.namespace = orders["namespace"]
        # Only what is of gangs whose names begin like this counts.
        self.prefix = orders.get("prefix", "")
        self.wanted: dict[str, int] | None = orders["wanted"]
        self.transport: Transport = open_transport({"kubeconfig": orders["kubeconfig"]}, {})
        self.seen: dict[str, dict[str, tuple[float, str]]] = {}
        self.reopened = 0
        self.changed = threading.Condition()

    def follow(self, name: str, opened: threading.Event) -> None:
        """Follow one watch for ever; one that the server ends, since we were too slow for it, goes on where it was."""
        path, fields, note = WATCHES[name]
        query = {"watch": 1, "timeoutSeconds": WATCH_SECONDS, "allowWatchBookmarks": "false"}
        if fields:
            query["fieldSelector"] = fields.format(self.namespace)
        while True:
            url = f"{path.format(self.namespace)}?{urlencode(query)}"
            try:
                stream = self.transport.stream(url, {"Accept": METADATA, "User-Agent": "observer"}, TIMEOUT)
                opened.set()
                for line in stream.lines():
                    query["resourceVersion"] = self.note(note, line, time.monotonic())
            except TransportFault:
                time.sleep(0.1)
            self.reopened += 1

    def note(self, note: t.Callable[[dict], Noted], line: bytes, now: float) -> str:
        """Remember when something was seen first; where a later watch can go on, from the beginning after an error."""
        event = json.loads(line)
        if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
            return ""
        metadata = event["object"]["metadata"]
        if (event["type"] == "DELETED") != (note is note_gone):
            return metadata["resourceVersion"]
        with self.changed:
            for kind, name, gang in note(metadata):
                if gang.startswith(self.prefix):
                    self.seen.setdefault(kind, {}).setdefault(name, (now, gang))
            self.changed.notify()
        return metadata["resourceVersion"]

    def wait(self) -> None:
        """Wait until as much as was wanted has happened, or for a line."""
        wanted = self.wanted
        if wanted is None:
            sys.stdin.readline()
            return
        with self.changed:
            self.changed.wait_for(lambda: all(len(self.seen.get(kind, ())) >= count for kind, count in wanted.items()))


def main() -> None:
    """Watch as ordered."""
    orders = json.loads(sys.argv[1])
    observer = Observer(orders)
    opened = {name: threading.Event() for name in orders["watches"]}
    for name, event in opened.items():
        threading.Thread(target=observer.follow, args=(name, event), daemon=True).start()
    for event in opened.values():
        event.wait()
    print("ready", flush=True)
    observer.wait()
    seen = {kind: sorted(times.values()) for kind, times in observer.seen.items()}
    print(json.dumps({"seen": seen, "reopened": observer.reopened}), flush=True)
    sys.stdin.read()
    # The threads are in the middle of their watches.
    os._exit(0)


if __name__ == "__main__":
    main()
