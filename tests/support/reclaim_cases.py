# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota trees and gangs on a stage in memory, for tests of what is taken back from whom."""

from __future__ import annotations

import contextlib
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage

AT_ONCE = {"min_run_time": 0}


@contextlib.contextmanager
def two_namespaces(*nodes: cases.Object) -> t.Iterator[MemoryStage]:
    """A stage with the namespaces a and b, and these nodes."""
    with MemoryStage(1) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*nodes)
        yield made


def leaf(name: str, cpu: int, **more: t.Any) -> cases.Object:
    """A queue below the root."""
    return {"name": name, "parent": "all", "nominal": {"cpu": cpu}, **more}


def declare(stage: MemoryStage, *queues: cases.Object, tree: str = "default", **settings: t.Any) -> None:
    """Store a tree of these queues, as the module does."""
    text = tree_text(read_tree(tree, {"queues": [{"name": "all"}, *queues], "settings": settings or AT_ONCE}))
    name = f"muster-quota-{tree}"
    if stage.cluster.get("configmaps", "muster-system", name) is None:
        metadata = {"name": name, "namespace": "muster-system", "labels": {TREE_LABEL: tree}}
        stage.cluster.add("configmaps", {"metadata": metadata, "data": {TREE_KEY: text}})
        return
    stage.cluster.change("configmaps", "muster-system", name, lambda raw: raw["data"].update({TREE_KEY: text}))


def submit(
    stage: MemoryStage,
    name: str,
    pods: int,
    queue: str,
    *,
    namespace: str = "a",
    job: cases.Object | None = None,
    labels: t.Mapping[str, str] | None = None,
    **options: t.Any,
) -> None:
    """Queue a gang of pods of one CPU, or another Job; labels name the queues of further trees."""
    record = cases.gang_record(name, namespace, [job or cases.job(f"{name}-j", "p", pods)], queue=queue, **options)
    record["metadata"]["labels"].update(labels or {})
    stage.cluster.add("configmaps", record)


def state(stage: MemoryStage, name: str, namespace: str = "a") -> cases.Object:
    """What the record of a gang says."""
    record = stage.cluster.get("configmaps", namespace, name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
    return {"phase": "queued", "transitions": []} if text is None else t.cast("cases.Object", json.loads(text))


def phases(stage: MemoryStage, *names: str) -> list[str]:
    """The phases of gangs."""
    return [state(stage, name)["phase"] for name in names]


def history(stage: MemoryStage, name: str) -> list[str]:
    """The phases that a gang went through."""
    return [item[0] for item in state(stage, name)["transitions"]]


def running(stage: MemoryStage, *names: str) -> t.Callable[[], bool]:
    """Whether these gangs run."""
    return lambda: phases(stage, *names) == ["running"] * len(names)
