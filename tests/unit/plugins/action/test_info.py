# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugins of modules that only read, in a real run of ansible-playbook without a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support.play import play_tasks

TASKS = {
    "component_info": {"muster.kube.component_info": {"nams": ["a"]}},
    "elastic_job_info": {"muster.kube.elastic_job_info": {"nam": "a"}},
    "fit_info": {"muster.kube.fit_info": {"definiton": {}}},
    "gang_info": {"muster.kube.gang_info": {"namespaces": "default"}},
    "image_build_info": {"muster.kube.image_build_info": {"spec_hsh": "a"}},
    "inspection_info": {"muster.kube.inspection_info": {"identifer": "a"}},
    "local_cluster_info": {"muster.kube.local_cluster_info": {"nam": "a"}},
    "quota_info": {"muster.kube.quota_info": {"tre": "a"}},
    "missing": {"muster.kube.gang_info": {"kubeconfig": "nowhere"}},
}
MEANT = {
    "component_info": "nams (did you mean names?)",
    "elastic_job_info": "nam (did you mean name?)",
    "fit_info": "definiton (did you mean definition?)",
    "gang_info": "namespaces (did you mean namespace?)",
    "image_build_info": "spec_hsh (did you mean spec_hash?)",
    "inspection_info": "identifer (did you mean identifier?)",
    "local_cluster_info": "nam (did you mean name?)",
    "quota_info": "tre (did you mean tree?)",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of one playbook."""
    return play_tasks(tmp_path_factory.mktemp("play"), TASKS)


@pytest.mark.parametrize("module", MEANT)
def test_an_option_that_does_not_exist_is_answered_with_the_nearest(results, module):
    assert MEANT[module] in results[module]["msg"]


def test_a_kubeconfig_that_is_nowhere_is_named(results):
    assert results["missing"]["msg"].startswith("Cannot find the file nowhere (kubeconfig)")
