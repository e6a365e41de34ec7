# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The AppWrapper CRD of the role dispatcher in a test cluster, for tests that need it and not the role."""

from __future__ import annotations

import pathlib
import typing as t

import yaml
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until

CRD_FILE = pathlib.Path(__file__).resolve().parents[2] / "roles" / "dispatcher" / "files" / "appwrapper-crd.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD_PATH = f"{CRDS}/appwrappers.workload.codeflare.dev"
WRAPPER_API = "workload.codeflare.dev/v1beta1"


def read_wrapper_crd() -> dict[str, t.Any]:
    """The CRD as it lies in the role."""
    return t.cast("dict[str, t.Any]", yaml.safe_load(CRD_FILE.read_text(encoding="utf-8")))


def install_wrapper_crd(client: KubeClient) -> None:
    """Create the CRD unless there is one, and wait until AppWrappers are served and can be listed."""
    try:
        create(client, CRDS, read_wrapper_crd())
    except Conflict as error:
        if not error.already_exists:
            raise
    wait_until("the API server to establish the AppWrapper CRD", lambda: _is_established(client))
    wait_until("AppWrappers in discovery", lambda: find_resource(client, WRAPPER_API, "AppWrapper"))


def _is_established(client: KubeClient) -> bool:
    """Whether the server accepted the names and serves the CRD."""
    crd = get_object(client, CRD_PATH) or {}
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
