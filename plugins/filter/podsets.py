# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter that lists the podsets of Kubernetes objects."""

from __future__ import annotations

DOCUMENTATION = r"""
name: podsets
short_description: List how many pods of which size Kubernetes objects will run
version_added: 0.1.0
author:
  - The muster.kube authors (@muster-kube)
description:
  - Infers the podsets of one object or of a list of objects without asking a cluster.
  - "Known kinds: Pod, ReplicationController, ReplicaSet, Deployment, StatefulSet, Job, CronJob (one run), JobSet,
    LeaderWorkerSet, PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob, JAXJob, TrainJob, RayCluster, RayJob, RayService,
    RayCronJob (one run), SparkApplication, AppWrapper (v1beta1 and v1beta2) and List. What the operators of these kinds
    add to the pods is counted too."
  - A TrainJob must say itself how many nodes of which size it has (C(spec.trainer.numNodes) and
    C(spec.trainer.resourcesPerNode)), since its runtime is an object of a cluster.
  - Kinds that are known to make no pods, such as ConfigMap or Service, give no podset. Any other kind is an error.
  - An object counts what it will run once started, so C(spec.suspend) does not change the result; only a suspended
    worker group of a RayCluster counts no pods.
  - Defaults that a namespace adds (LimitRange) and the overhead of a RuntimeClass are not known here.
positional: namespace
options:
  _input:
    description:
      - One object or a list of objects.
    type: raw
    required: true
  namespace:
    description:
      - The namespace shown for objects that name none.
    type: str
    default: default
"""

EXAMPLES = r"""
- name: What would this Job ask for?
  ansible.builtin.debug:
    msg: "{{ job | muster.kube.podsets }}"
  vars:
    job:
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
      spec:
        parallelism: 4
        template:
          spec:
            restartPolicy: Never
            containers:
              - name: main
                image: registry.example/train
                resources:
                  requests:
                    cpu: "2"
                    memory: 4Gi
  # => [{"name": "train", "count": 4, "requests": {"cpu": "2", "memory": "4Gi"}, "limits": {},
  #      "source": "Job default/train"}]
"""

RETURN = r"""
_value:
  description: The podsets in the order of the objects.
  type: list
  elements: dict
  contains:
    name:
      description: Name of the podset, unique in the list.
      type: str
      sample: raycluster-complete/head
    count:
      description: How many equal pods.
      type: int
      sample: 1
    requests:
      description: What one pod asks for, as a quantity per resource.
      type: dict
      sample: {cpu: "1", memory: 2G}
    limits:
      description: The limits of one pod, as a quantity per resource.
      type: dict
      sample: {cpu: "1", memory: 2G}
    source:
      description: The object that makes the pods.
      type: str
      sample: RayCluster demo/raycluster-complete
"""

import typing as t
from collections.abc import Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import quantity_text


def podsets(value: t.Any, namespace: str = "default") -> list[dict[str, t.Any]]:
    """The podsets of one object or of many, with readable quantities."""
    try:
        if isinstance(value, Mapping):
            value = [value]
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise BadInput(
                "infer the podsets of", "the input", f"an object or a list is needed, not {type(value).__name__}"
            )
        found = infer_podsets(value, namespace=namespace)
    except MusterError as error:
        raise AnsibleFilterError(f"muster.kube.podsets: {error}") from error
    return [
        {
            "name": podset.name,
            "count": podset.count,
            # Every pod takes one place among a node's pods; that is no news to the reader.
            "requests": _texts({name: amount for name, amount in podset.requests.items() if name != "pods"}),
            "limits": _texts(podset.limits),
            "source": podset.source,
        }
        for podset in found
    ]


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Scaled amounts as quantities."""
    return {name: quantity_text(name, amount) for name, amount in amounts.items()}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filter under its short name."""
        return {"podsets": podsets}
