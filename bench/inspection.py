# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an inspection of a script that does nothing costs, next to kubectl doing as little; and builds, new and known.

This machine is the node (root needed), busybox the image. In turns, so that the machine's load is the same for both:
kubectl creates a Job of that image and waits for it; an inspection runs an empty script in it, with all its results.

Usage: inspection.py [--rounds 7] [--builds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import typing as t

from ansible.plugins.loader import init_plugin_loader

OVERHEAD_BAR = 1.5
REQUESTS = {"cpu": "100m", "memory": "64Mi"}


def timed(work: t.Callable[[], object]) -> float:
    """How long something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def by_kubectl(cluster, image: str, name: str) -> None:
    """Create a Job and wait for it, as one would by hand; its requests are not set, which makes it no slower."""
    kubectl = [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, "-n", "default"]
    create = [*kubectl, "create", "job", name, f"--image={image}", "--", "/bin/busybox", "true"]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    wait = [*kubectl, "wait", f"job/{name}", "--for=condition=complete", "--timeout=120s"]
    subprocess.run(wait, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def bench_overhead(cluster, rounds: int) -> None:
    """The same nothing, done by both in turns; the first round only fills caches."""
    from ansible_collections.muster.kube.tests.support.inspector import Inspector

    image = cluster.busybox_image()
    inspector = Inspector(cluster.kubeconfig, "default", image=image, run={"requests": REQUESTS})
    figures: dict[str, list[float]] = {"kubectl create job + wait": [], "inspection": [], "stored inspection": []}
    for number in range(rounds + 1):
        script = f"exit 0 # {number}"
        took = (
            timed(lambda number=number: by_kubectl(cluster, image, f"plain-{number}")),
            timed(lambda script=script: inspector.run(script=script)),
            timed(lambda script=script: inspector.run(script=script)),
        )
        if number:
            for name, seconds in zip(figures, took, strict=True):
                figures[name].append(seconds)
    show(figures)
    plain, ours, _stored = (statistics.median(values) for values in figures.values())
    kept = "kept" if ours / plain <= OVERHEAD_BAR else "MISSED"
    print(f"ratio {ours / plain:.2f} (bar {OVERHEAD_BAR}): {kept}; load {os.getloadavg()[0]:.1f}", flush=True)


def bench_builds(cluster, builds: int) -> None:
    """A stack of a base and one file, built, and asked for again; the first build finds the tier that works."""
    from ansible_collections.muster.kube.tests.support.inspector import Inspector

    base, builder = cluster.base_image(), cluster.builder_image()
    settings = {
        "repository": f"{cluster.registry}/bench",
        "builder_image": builder,
        "insecure_registries": [cluster.registry],
        "host_network": True,
    }
    inspector = Inspector(cluster.kubeconfig, "default", build=settings)
    figures: dict[str, list[float]] = {"first build, tier sought": [], "build": [], "the same stack again": []}
    for number in range(builds + 1):
        stack = {"base": base, "files": [{"path": "/data/number", "content": str(number)}]}
        seconds = timed(lambda stack=stack: inspector.run(stack=stack))
        figures["build" if number else "first build, tier sought"].append(seconds)
        figures["the same stack again"].append(timed(lambda stack=stack: inspector.run(stack=stack)))
    show(figures)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)


def show(figures: dict[str, list[float]]) -> None:
    """Medians and extremes."""
    for name, values in figures.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{name:28} median {statistics.median(values):6.2f} s  ({spread}, {len(values)} times)")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--builds", type=int, default=3)
    arguments = parser.parse_args()
    init_plugin_loader()
    from ansible_collections.muster.kube.tests.support.real_cluster import (
        REAL,
        RealCluster,
        reason_to_skip,
    )
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    reason = reason_to_skip()
    if reason is not None:
        sys.exit(f"Not measured: {reason}")
    print(f"{os.cpu_count()} cores")
    with running_cluster(f"bench-inspect-{os.getpid()}", nodes=(REAL,), registry=True) as live:
        cluster = RealCluster(live, live.result)
        bench_overhead(cluster, arguments.rounds)
        bench_builds(cluster, arguments.builds)


if __name__ == "__main__":
    main()
