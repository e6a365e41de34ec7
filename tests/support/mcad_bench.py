# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bench on which the tests of MCAD are re-enacted: two nodes of two cpus each, with 1950m free in all.

MCAD counts cpus over all nodes. Where a test of it needs a free half on each node, the 1950m are split evenly.
"""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult, run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.gang_cases import pod_template
from ansible_collections.muster.kube.tests.support.live_cluster import DEADLINE

Object = dict[str, t.Any]
# Type, reason and message of a condition.
Told = tuple[str, str, str]

# How much is taken on each node: as on MCAD's own bench, and evenly.
AS_MCAD = ("950m", "1100m")
EVENLY = ("1025m", "1025m")

INIT = ("Init", "", "")
QUEUEING = ("Queueing", "AwaitingHeadOfLine", "")
HEAD = ("HeadOfLine", "FrontOfQueue.", "")
DISPATCHED = ("Dispatched", "AppWrapperRunnable", "")
NO_ROOM = ("Backoff", "AppWrapperNotRunnable.", "Insufficient resources to dispatch AppWrapper.")
HOLDING = ("RunningHoldCompletion", "SomeItemsCompleted", "")
COMPLETED = ("Completed", "PodsCompleted", "")

STARTED: list[Told] = [INIT, QUEUEING, HEAD, DISPATCHED]
WAITING: list[Told] = [INIT, QUEUEING, HEAD, NO_ROOM]
# state, queuejobstate and canrun
RUNS = ("Running", "Dispatched", True)
WAITS = ("Pending", "Backoff", False)
DONE = ("Completed", "Completed", False)


class Bench(Stage):
    """A stage with MCAD's nodes, and what AppWrappers show."""

    def furnish(self, taken: t.Sequence[str]) -> None:
        """Two nodes of 2000m on which so much is taken by somebody else."""
        for node, cpu in zip(self.add_nodes(len(taken), cpu="2000m"), taken, strict=True):
            self.occupy(f"taken-{node[-2:]}", node, cpu=cpu)

    def run_till(self, what: str, reached: t.Callable[[], bool], **terms: t.Any) -> DispatchResult:
        """Cycles until something can be seen in the cluster."""
        settings: dict[str, t.Any] = {"lease": self.lease, "namespaces": (self.namespace,), **terms}
        result = run_dispatch(
            *self._clients,
            DispatchOptions(duration=DEADLINE, **settings),
            self.lines.append,
            until=lambda _phases: reached(),
        )
        told = [item.line() for item in result.decisions]
        assert reached(), f"never came: {what}; {told}; {result.warnings}"
        return result

    def run_till_running(self, pods: t.Mapping[str, int], **terms: t.Any) -> DispatchResult:
        """Cycles until these wrappers are told to have so many running pods."""

        def reached() -> bool:
            return all(self.status(name).get("running") == count for name, count in pods.items())

        return self.run_till(f"running pods {dict(pods)}", reached, **terms)

    def deployment(self, name: str, pods: int, **requests: str) -> Object:
        """A Deployment in this stage's pool."""
        return self._replicated("Deployment", name, pods, requests)

    def stateful_set(self, name: str, pods: int, **requests: str) -> Object:
        """A StatefulSet in this stage's pool."""
        made = self._replicated("StatefulSet", name, pods, requests)
        made["spec"]["serviceName"] = name
        return made

    def _replicated(self, kind: str, name: str, pods: int, requests: t.Mapping[str, str]) -> Object:
        """What keeps so many pods alive."""
        template = pod_template(self.pool, requests, None)
        template["spec"].pop("restartPolicy")
        template["metadata"]["labels"] = {"app": name}
        spec = {"replicas": pods, "selector": {"matchLabels": {"app": name}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}

    def bare_pod(self, name: str, **requests: str) -> Object:
        """A Pod as an item; MCAD's tests call it a pod template."""
        template = pod_template(self.pool, requests, None)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]}

    def status(self, name: str) -> Object:
        """The status of an AppWrapper; empty while there is none."""
        return t.cast(Object, self.record(name).raw.get("status") or {})

    def shown(self, name: str) -> tuple[str, str, bool]:
        """The words for where an AppWrapper stands."""
        return shown(self.status(name))

    def conditions(self, name: str) -> list[Told]:
        """The conditions of an AppWrapper in their order."""
        return conditions(self.status(name))

    def pods_of(self, name: str) -> list[Object]:
        """The pods of a gang that are not on their way out."""
        return self.pods(f"{GANG_LABEL}={self.record(name).uid}")


def shown(status: t.Mapping[str, t.Any]) -> tuple[str, str, bool]:
    """state, queuejobstate and canrun; what is false is left out."""
    return status.get("state", ""), status.get("queuejobstate", ""), status.get("canrun", False)


def conditions(status: t.Mapping[str, t.Any]) -> list[Told]:
    """Type, reason and message of the conditions, all of which must be true."""
    listed = status.get("conditions") or []
    assert all(item["status"] == "True" for item in listed), listed
    return [(item["type"], item.get("reason", ""), item.get("message", "")) for item in listed]


def starts(result: DispatchResult, name: str) -> int:
    """How often a gang was started in a run."""
    return sum(item.action == "start" and item.gang.endswith(f"/{name}") for item in result.decisions)
