# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random pods of every shape that changes what a pod asks for. The same seed gives the same pod."""

from __future__ import annotations

import random

GADGET = "example.com/gadget"
HUGE = "hugepages-2Mi"
RUNTIME_CLASSES = {
    "heavy": {"cpu": "130m", "memory": "77Mi"},
    "odd": {"cpu": "1500u", "memory": "1000001", "ephemeral-storage": "3k"},
}


def runtime_classes() -> list[dict]:
    """The RuntimeClasses whose overhead some of the pods bear."""
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": name,
            "overhead": {"podFixed": overhead},
        }
        for name, overhead in RUNTIME_CLASSES.items()
    ]


def make_pod(seed: int, index: int, namespace: str) -> dict:
    """The pod of this seed and index; legal, whatever its numbers are."""
    rng = random.Random(f"{seed}/{index}/pod")
    on_pod = rng.random() < 0.25
    spec: dict = {
        "containers": [_container(rng, f"c{i}", on_pod) for i in range(rng.randint(1, 3))],
        "restartPolicy": "Always",
    }
    initial = [_container(rng, f"i{i}", on_pod) for i in range(rng.choice((0, 0, 1, 2, 3)))]
    for container in initial:
        if rng.random() < 0.5:
            container["restartPolicy"] = "Always"
    if initial:
        spec["initContainers"] = initial
    if rng.random() < 0.3:
        spec["runtimeClassName"] = rng.choice(tuple(RUNTIME_CLASSES))
    if on_pod:
        spec["resources"] = _pod_level(rng)
    meta = {"name": f"pod-{index}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _container(rng: random.Random, name: str, on_pod: bool) -> dict:
    """A container with requests, limits, both or neither; requests only where the pod itself sets limits."""
    style = rng.choice(("requests", "requests", "limits", "both", "none"))
    wanted = _amounts(rng, whole=on_pod)
    resources: dict = {}
    if style == "requests" or (on_pod and style != "none"):
        resources = {"requests": wanted}
    elif style == "limits":
        resources = {"limits": wanted}
    elif style == "both":
        kept = {key: value for key, value in wanted.items() if rng.random() < 0.6}
        resources = {"requests": kept, "limits": {key: _grown(rng, key, value) for key, value in kept.items()}}
        resources["limits"] |= {key: value for key, value in wanted.items() if key not in kept}
    if style != "none" and rng.random() < 0.3:
        _set_both(resources, GADGET, str(rng.randint(1, 4)))
    if style != "none" and "memory" in wanted and not on_pod and rng.random() < 0.15:
        _set_both(resources, HUGE, f"{rng.randint(1, 8) * 2}Mi")
    return {"name": name, "image": "none", "resources": resources}


def _set_both(resources: dict, name: str, value: str) -> None:
    """Resources that cannot be overcommitted want their limit stated, equal to the request."""
    resources.setdefault("limits", {})[name] = value
    resources.setdefault("requests", {})[name] = value


def _amounts(rng: random.Random, *, whole: bool) -> dict:
    """Amounts in the many ways people write them, fractions of units included unless only whole ones are wanted.

    Where the pod itself has limits the API server sums up fractions of milli-cores before it rounds them, then refuses
    its own sum.
    """
    amounts = {}
    if rng.random() < 0.8:
        number = rng.randint(1, 1500)
        amounts["cpu"] = rng.choice((f"{number}m", str(number / 1000), f"{number}e-3", f"{number}500u"))
        if whole:
            amounts["cpu"] = f"{number}m"
    if rng.random() < 0.8:
        number = rng.randint(1, 500)
        amounts["memory"] = rng.choice(
            (f"{number}Mi", f"{number}M", f"0.{number:03}Gi", str(number * 1_000_003), f"{number}000000500m")
        )
    if rng.random() < 0.25:
        amounts["ephemeral-storage"] = rng.choice((f"{rng.randint(1, 900)}Mi", f"{rng.randint(1, 9)}G"))
    return amounts


def _grown(rng: random.Random, name: str, value: str) -> str:
    """A limit that is at least the request."""
    return value if rng.random() < 0.3 else {"cpu": "8", "memory": "16Gi"}.get(name, "64Gi")


def _pod_level(rng: random.Random) -> dict:
    """Resources of the pod itself, well above what its containers can add up to."""
    requests = {"cpu": f"{rng.randint(12000, 14000)}m", "memory": str(rng.randint(5, 6) * 10**9 + rng.randint(0, 999))}
    limits = {"cpu": "20", "memory": "64Gi"}
    name = rng.choice(("cpu", "memory"))
    return rng.choice(
        (
            {"requests": requests},
            {"requests": {name: requests[name]}},
            {"limits": limits},
            {"requests": {name: requests[name]}, "limits": limits},
        )
    )
