# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods that ask the API server as any program in any cluster does: with the address, token and authority they find."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE

# Only the API server of its own cluster has that authority and takes that token.
ASK = """
import os, ssl, sys, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
address = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}".format(**os.environ)
request = urllib.request.Request(address + sys.argv[1])
request.add_header("Authorization", "Bearer " + open(folder + "token").read())
with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=folder + "ca.crt")) as answer:
    print(answer.read().decode())
"""


def answer_to_pod(
    live: LiveCluster, image: str, path: str, *, name: str = "asks", namespace: str = "default", **settings: t.Any
) -> t.Any:
    """What the API server answers to a pod of the real node that asks for a path, with an image that has python3."""
    container = {"name": "main", "image": image, "command": ["python3", "-c", ASK, path]}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": ON_REAL_NODE,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        **settings,
    }
    live.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
    place = resource_path("v1", "pods", namespace, name)
    ends = ("Succeeded", "Failed")
    wait_until("the pod to end", lambda: get_object(live.client, place)["status"].get("phase") in ends)
    printed = live.client.request("GET", f"{place}/log").body.decode()
    assert get_object(live.client, place)["status"]["phase"] == "Succeeded", printed
    return json.loads(printed)
