# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the first reading of a large cluster costs a dispatcher, without any server: from lists as bytes to a decision.

The lists of mirror.py are written to files, page by page, as an API server sends them; fresh processes read them as a
run of many cycles does, and decide once. Pods are plain as those that mirror.py creates, which nobody runs, or full as
those of Jobs that a kubelet runs. Printed is the middle of some processes, in seconds of their processor time.
--before names a folder with ansible_collections of another version, which is measured by turns with this one.

Usage: cold.py [--nodes 5000] [--pods 50000] [--gangs 1000] [--seed 1] [--rounds 3] [--like plain full]
               [--before FOLDER] [--profile]
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import os
import pathlib
import pstats
import random
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t
from urllib.parse import parse_qs, urlsplit

import fit
import mirror
from ansible.plugins.loader import init_plugin_loader

CREATED = "2026-01-01T00:00:00Z"
NOW = 1_800_000_000.0
PAGE = 1000
PARTS = ("records", "world", "decide")


def completed(obj: dict, number: int, *, full: bool) -> dict:
    """An object as the server keeps it: what it adds to each."""
    metadata = {"uid": f"00000000-0000-4000-8000-{number:012d}", "resourceVersion": str(number), "generation": 1}
    metadata |= {"creationTimestamp": CREATED, "managedFields": managed_fields(obj, full=full)}
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def managed_fields(obj: dict, *, full: bool) -> list[dict]:
    """Who set which fields: the creator, and of a pod that runs also its kubelet."""
    containers = {
        'k:{"name":"main"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {".": {}, "f:requests": {}}}
    }
    spec = {"f:containers": containers, "f:nodeName": {}, "f:restartPolicy": {}, "f:schedulerName": {}}
    entry = {"operation": "Update", "apiVersion": "v1", "time": CREATED, "fieldsType": "FieldsV1"}
    labels = {"f:labels": {".": {}, **{f"f:{name}": {} for name in obj["metadata"].get("labels") or ()}}}
    entries = [{**entry, "manager": "muster.kube", "fieldsV1": {"f:metadata": labels, "f:spec": spec}}]
    if full:
        kinds = ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")
        fields = {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
        told = {f'k:{{"type":"{kind}"}}': fields for kind in kinds}
        status = {"f:conditions": told, "f:containerStatuses": {}, "f:phase": {}, "f:podIP": {}, "f:startTime": {}}
        entries.append({**entry, "manager": "kubelet", "subresource": "status", "fieldsV1": {"f:status": status}})
    return entries


def listed_pod(pod: dict, number: int, *, full: bool) -> dict:
    """A pod with the defaults of the API server; a full one is a Job's and runs."""
    tolerations = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for name in ("not-ready", "unreachable")
    ]
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    roots = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [token, roots, {"downwardAPI": {"items": [field]}}]
    volume = {"name": "kube-api-access-x7k2p", "projected": {"sources": sources, "defaultMode": 420}}
    mount = {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    container = {
        **pod["spec"]["containers"][0],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
        **({"volumeMounts": [mount], "args": ["--run", str(number)]} if full else {}),
    }
    spec = {
        **pod["spec"],
        "containers": [container],
        "restartPolicy": "Never" if full else "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": tolerations,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        **({"volumes": [volume]} if full else {}),
    }
    metadata = dict(pod["metadata"])
    if full:
        owner = f"j{number // 10:05d}"
        metadata["labels"] = {**metadata["labels"], "job-name": owner, "batch.kubernetes.io/job-name": owner}
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"{owner}-uid"}
        metadata["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    whole = {
        "metadata": metadata,
        "spec": spec,
        "status": running_status(number, container) if full else waiting_status(),
    }
    return completed(whole, number, full=full)


def waiting_status() -> dict:
    """What the server says of a pod that nobody runs."""
    return {"phase": "Pending", "qosClass": "Burstable"}


def running_status(number: int, container: dict) -> dict:
    """What a kubelet says of a pod that runs."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    told = [
        {"type": kind, "observedGeneration": 1, "status": "True", "lastProbeTime": None, "lastTransitionTime": CREATED}
        for kind in kinds
    ]
    ran = {
        "name": "main",
        "state": {"running": {"startedAt": CREATED}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "registry.example.com/none:latest",
        "imageID": f"registry.example.com/none@sha256:{'0' * 64}",
        "containerID": f"containerd://{number:064x}",
        "started": True,
        "allocatedResources": container["resources"]["requests"],
        "resources": container["resources"],
    }
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    host = {"hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}], "podIP": address, "podIPs": [{"ip": address}]}
    return {
        "phase": "Running",
        "conditions": told,
        **host,
        "startTime": CREATED,
        "containerStatuses": [ran],
        "qosClass": "Burstable",
    }


def listed_node(i: int, *, full: bool) -> dict:
    """A node; a full one has conditions, addresses and the names of images it holds."""
    node = fit.build_node(i)
    del node["apiVersion"], node["kind"]
    if full:
        kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        node["status"] |= {
            "conditions": [
                {"type": kind, "status": "False", "lastHeartbeatTime": CREATED, "reason": "Known", "message": "known"}
                for kind in kinds
            ],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": f"n{i:05d}"}],
            "images": [
                {"names": [f"registry.example.com/image-{n}@sha256:{'0' * 64}"], "sizeBytes": n} for n in range(30)
            ],
        }
    return completed(node, i + 1, full=full)


def write_lists(folder: pathlib.Path, arguments: argparse.Namespace, *, full: bool) -> None:
    """All lists a dispatcher asks for that are not empty."""
    from ansible_collections.muster.kube.tests.support.gang_cases import gang_record

    rng = random.Random(arguments.seed)
    pods, gangs = arguments.nodes + 1, arguments.nodes + arguments.pods + 1
    records = [gang_record(f"wait-{i}", mirror.TEAM, [mirror.waiting_job(i)]) for i in range(arguments.gangs)]
    homes = [{"metadata": {"name": name}} for name in ("default", mirror.TEAM)]
    lists: dict[str, tuple[str, t.Iterable[dict]]] = {
        "nodes": ("Node", (listed_node(i, full=full) for i in range(arguments.nodes))),
        "pods": (
            "Pod",
            (listed_pod(fit.build_pod(rng, i, arguments.nodes), pods + i, full=full) for i in range(arguments.pods)),
        ),
        "configmaps": ("ConfigMap", (completed(item, gangs + i, full=False) for i, item in enumerate(records))),
        "namespaces": ("Namespace", (completed(item, i + 1, full=False) for i, item in enumerate(homes))),
    }
    for plural, (kind, items) in lists.items():
        write_pages(folder / plural, kind, list(items))


def write_pages(folder: pathlib.Path, kind: str, items: list[dict]) -> None:
    """One list as the server sends it, in files of one page each."""
    folder.mkdir(parents=True)
    for start in range(0, len(items), PAGE):
        rest = len(items) - start - PAGE
        metadata = {"resourceVersion": "1000000"}
        if rest > 0:
            metadata |= {"continue": str(start // PAGE + 1), "remainingItemCount": rest}
        page = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": items[start : start + PAGE]}
        (folder / str(start // PAGE)).write_text(json.dumps(page, separators=(",", ":")), encoding="utf-8")


class FiledLists:
    """A transport that answers lists from files; of all other kinds there is nothing."""

    base_url = "https://localhost"

    def __init__(self, folder: pathlib.Path) -> None:
        """The lists are those of this folder."""
        self._folder = folder

    def send(self, _method: str, url: str, _headers: t.Any, _body: t.Any, _timeout: t.Any) -> tuple[int, dict, bytes]:
        """One page."""
        address = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        plural = address.path.rsplit("/", 1)[1]
        if address.path.startswith("/apis/") and address.path.count("/") == 3:
            resources = [{"name": "jobs", "kind": "Job", "namespaced": True}] if "batch" in address.path else []
            return 200, {}, json.dumps({"resources": resources}).encode()
        page = self._folder / plural / query.get("continue", "0")
        # Of what has labels only gangs' records are asked for and there.
        if not page.exists() or (plural == "configmaps" and "gang" not in query.get("labelSelector", "")):
            return 200, {}, b'{"kind":"List","metadata":{"resourceVersion":"1000000"},"items":[]}'
        return 200, {}, page.read_bytes()


def read(folder: pathlib.Path, *, profile: bool) -> None:
    """One process: read as a run of many cycles does and decide once; print figures as JSON."""
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import MirroredSource
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.world import (
        read_records,
        read_tickets,
        read_world,
    )
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
    from ansible_collections.muster.kube.plugins.module_utils._kube.mirror import Mirror, Mirrors
    from ansible_collections.muster.kube.plugins.module_utils._kube.reads import without_gc
    from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
    from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
    from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import Situation, plan_cycle
    from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records

    client = KubeClient(t.cast(t.Any, FiledLists(folder)))
    mirrors = Mirrors(client, lambda: None)
    mirrors.mirror_type = type("UnwatchedMirror", (Mirror,), {"start": lambda _mirror: None})
    source, memory, options = MirroredSource(client, mirrors), Memory(), DispatchOptions(namespaces=(mirror.TEAM,))
    marks = [time.process_time()]
    sight = read_records(Records(client, lists=mirrors), options, finished=False)
    tickets = read_tickets(client, sight.mine, (None,), source=source)
    marks.append(time.process_time())
    with profiled() if profile else contextlib.nullcontext():
        world = read_world(client, sight.mine, options, memory, tickets, places=(None,), source=source)
    marks.append(time.process_time())
    with without_gc():
        records = {record.uid: record for record in sight.mine}
        plan = plan_cycle(Situation(world, records, (), {}, NOW, NOW, history={}), options, memory)
    marks.append(time.process_time())
    figures = {part: marks[i + 1] - marks[i] for i, part in enumerate(PARTS)}
    seen = {"nodes": len(world.snapshot.nodes), "pods": len(world.snapshot.pods), "waiting": len(plan.choices)}
    print(json.dumps({**figures, **seen, "peak_mib": fit.peak_memory_mib()}))


@contextlib.contextmanager
def profiled() -> t.Iterator[None]:
    """Show where the time goes, all in one thread."""
    from ansible_collections.muster.kube.tests.support.memory_dispatcher import inline_calls

    profile = cProfile.Profile()
    with inline_calls():
        profile.enable()
        yield
        profile.disable()
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(35)


def read_in_turns(folder: pathlib.Path, arguments: argparse.Namespace) -> dict[str, list[dict]]:
    """The figures of fresh processes, by collection; those of two collections by turns, so that both meet the same."""
    trees = {"this": os.environ.get("ANSIBLE_COLLECTIONS_PATH", "")}
    if arguments.before:
        trees = {"before": arguments.before, **trees}
    command = [sys.executable, __file__, "--read", str(folder), *(["--profile"] if arguments.profile else [])]
    rounds: dict[str, list[dict]] = {name: [] for name in trees}
    for _round in range(arguments.rounds):
        for name, tree in trees.items():
            environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": tree}
            done = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
            )
            rounds[name].append(json.loads(done.stdout))
            seen = {kind: rounds[name][-1][kind] for kind in ("nodes", "pods", "waiting")}
            if seen != {"nodes": arguments.nodes, "pods": arguments.pods, "waiting": arguments.gangs}:
                sys.exit(f"not all was read: {seen}")
    return rounds


def measure(arguments: argparse.Namespace) -> None:
    """Write the lists, read them in fresh processes, print a table."""
    print("| collection | pods | records, s | world, s | deciding, s | all, s | bar | peak memory, MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for like in arguments.like:
        with tempfile.TemporaryDirectory() as folder:
            write_lists(pathlib.Path(folder), arguments, full=like == "full")
            measured = read_in_turns(pathlib.Path(folder), arguments)
        for name, rounds in measured.items():
            parts = [statistics.median(figures[part] for figures in rounds) for part in PARTS]
            whole = statistics.median(sum(figures[part] for part in PARTS) for figures in rounds)
            kept = "kept" if whole <= mirror.COLD_SECONDS else "MISSED" if name == "this" else "not kept"
            told = " | ".join(f"{part:.2f}" for part in (*parts, whole))
            peak = statistics.median(figures["peak_mib"] for figures in rounds)
            print(f"| {name} | {like} | {told} | {mirror.COLD_SECONDS:.0f}, {kept} | {peak:.0f} |", flush=True)
    print(f"\nseed {arguments.seed}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--gangs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--like", nargs="+", choices=("plain", "full"), default=["plain", "full"])
    parser.add_argument("--before", metavar="FOLDER", help="collections to compare with")
    parser.add_argument("--profile", action="store_true", help="show where the time of the world goes")
    parser.add_argument("--read", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    init_plugin_loader()
    if arguments.read:
        read(pathlib.Path(arguments.read), profile=arguments.profile)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
