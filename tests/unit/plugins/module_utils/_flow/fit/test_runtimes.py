# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TrainJobs get from their runtimes what they leave out, and nothing is asked otherwise."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource, read_gang
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.runtimes import Runtimes
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import read_wanted
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import NeedsPodsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.tests.support.gang_records import gang, terms
from ansible_collections.muster.kube.tests.support.kind_cases import template, thing
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

API = "trainer.kubeflow.org/v1alpha1"
CLUSTER = f"/apis/{API}/clustertrainingruntimes/torch"
OWN = f"/apis/{API}/namespaces/team/trainingruntimes/torch"
LABELS = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def train_job(kind=None, **trainer):
    ref = {"name": "torch", **({"kind": kind} if kind else {})}
    return thing(API, "TrainJob", {"runtimeRef": ref, "trainer": trainer})


def runtime(nodes):
    pods = template()
    pods["spec"]["containers"][0]["name"] = "node"
    job = {"name": "node", "template": {"metadata": {"labels": LABELS}, "spec": {"template": pods}}}
    spec = {"mlPolicy": {"numNodes": nodes}, "template": {"spec": {"replicatedJobs": [job]}}}
    return {"kind": "Runtime", "metadata": {"name": "torch"}, "spec": spec}


@pytest.fixture
def api():
    return WritableApi()


def never():
    """A connection that nobody needs."""
    raise AssertionError


def nodes(request):
    (found,) = infer_podsets(request.objects, namespace=request.namespace)
    return found.count, found.requests["cpu"]


def test_the_runtime_of_the_cluster_or_of_the_namespace_is_read(api):
    api.put(CLUSTER, runtime(4))
    api.put(OWN, runtime(2))
    runtimes = Runtimes(api.client)
    assert nodes(read_gang(GangSource(definition=train_job()), 0, runtimes)) == (4, 1000)
    assert nodes(read_gang(GangSource(definition=train_job("TrainingRuntime")), 0, runtimes)) == (2, 1000)
    assert nodes(read_gang(GangSource(definition=train_job(numNodes=7)), 0, runtimes)) == (7, 1000)


@pytest.mark.parametrize(
    "source",
    [
        GangSource(definition=train_job(numNodes=1, resourcesPerNode={"requests": {"cpu": 1}})),
        GangSource(definition=train_job(), podsets=({"count": 1, "requests": {"cpu": 1}},)),
        GangSource(definition=train_job("Recipe")),
        GangSource(definition=thing("v1", "Pod", template()["spec"])),
    ],
)
def test_nothing_is_read_that_is_not_needed(source):
    assert read_gang(source, 0, Runtimes(never)).objects == (source.definition,)


@pytest.mark.parametrize("answer", [None, 403])
def test_without_the_runtime_the_job_has_to_say_it(api, answer):
    if answer:
        api.fixed[("GET", CLUSTER)] = [refused(answer, "Forbidden", "no")]
    request = read_gang(GangSource(definition=train_job()), 0, Runtimes(api.client))
    with pytest.raises(NeedsPodsets, match=r"its runtime torch decides about its nodes; set spec\.trainer\.numNodes"):
        nodes(request)


def test_a_queued_gang_holds_what_its_runtime_said(api):
    api.put(CLUSTER, runtime(4))
    (wanted,) = read_wanted(terms(gang(definition=train_job(), namespace="team")), Runtimes(api.client))
    trainer = wanted.spec.objects[0]["spec"]["trainer"]
    assert trainer == {"numNodes": 4, "resourcesPerNode": template()["spec"]["containers"][0]["resources"]}
