# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placeholders of certificates in manifests are left out, so that the real ones stay; everything else is as it was."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.component.blank_bundles import without_blank_bundles
from ansible_collections.muster.kube.tests.support.component_stage import deployment, widget_crd
from ansible_collections.muster.kube.tests.support.stack_stage import BUNDLE, hooks


def converted(ca):
    """A definition whose objects are converted by a webhook."""
    crd = widget_crd()
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://x", "caBundle": ca}},
    }
    return crd


def api_service(ca):
    """An API that is served by a Service."""
    spec = {"service": {"name": "hook", "namespace": "home"}, "caBundle": ca}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.w"}, "spec": spec}


def webhook(ca):
    """A webhook configuration."""
    return hooks(ca=ca)


MAKERS = [converted, api_service, webhook]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("blank", ["", "Cg==", "ICAK", None])
def test_a_placeholder_is_left_out(make, blank):
    given = make(blank)
    before = copy.deepcopy(given)
    assert "caBundle" not in str(without_blank_bundles(given))
    assert given == before


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("real", [BUNDLE, "bm90IG9uZQ==", "no base64"])
def test_anything_else_stays(make, real):
    assert without_blank_bundles(make(real)) == make(real)


def test_other_objects_and_broken_ones_stay_as_they_are():
    broken = {**hooks(), "webhooks": [7, {"clientConfig": "none"}, {}]}
    for obj in (deployment(), widget_crd(), broken, {**hooks(), "webhooks": None}, {**api_service(""), "spec": None}):
        assert without_blank_bundles(obj) == obj
