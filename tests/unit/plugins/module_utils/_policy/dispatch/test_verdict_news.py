# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reader has to know at once of a verdict that was not written out yet."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.verdict_news import gist_of_verdict
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, GPU


def refused(**short):
    verdict = Verdict("g", "n", "waits", None, "insufficient", NamespaceFit(True), 1, (), {})
    keys = {"cpu": CPU, "gpu": GPU}
    amounts = {keys[name]: amount for name, amount in short.items()}
    return verdict.with_quota(QuotaLayer((QuotaStanding("t", "waits", reason="quota", short=amounts),)))


def test_other_resources_short_in_the_tree_are_news_and_other_amounts_are_none():
    assert gist_of_verdict(refused(cpu=1)) == gist_of_verdict(refused(cpu=2))
    assert gist_of_verdict(refused(cpu=1)) != gist_of_verdict(refused(cpu=1, gpu=1))
