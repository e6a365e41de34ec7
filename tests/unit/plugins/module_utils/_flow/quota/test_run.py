# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree declared, found again, changed, refused and removed, on a small server."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import run_quota
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.tests.support.gang_records import add_record
from ansible_collections.muster.kube.tests.support.quota_trees import queue
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

PATH = "/api/v1/namespaces/team/configmaps/muster-quota-default"
RESERVED = ({"name": "w", "count": 2, "requests": {"cpu": "1"}},)
ROOT = queue("root", capacity={"cpu": 8})
BOTH = [ROOT, queue("a", "root", nominal={"cpu": 4}, namespaces=["team"]), queue("b", "root", nominal={"cpu": 4})]
ONE = [ROOT, queue("b", "root", nominal={"cpu": 4})]
# Where no gang waits or runs nothing would happen.
NOTHING = {"start": [], "wait": [], "reclaim": [], "shrink": []}


@pytest.fixture
def api():
    return WritableApi()


def run(api, queues=BOTH, *, state="present", check=False, **rest):
    options = QuotaOptions("default", "team", state, {"queues": queues, **rest}, check)
    return run_quota(api.client, options)


def test_tree_is_stored_once(api):
    assert run(api).changed
    api.asked.clear()
    again = run(api)
    assert not again.changed
    assert api.writes == []
    assert again.as_result(diff=True)["diff"]["before"] == {}


def test_other_order_and_spelling_is_no_change(api):
    run(api)
    same = [queue("b", "root", nominal={"cpu": "4000m"}, weight="1.0"), BOTH[1], ROOT]
    assert not run(api, same).changed


def test_check_mode_tells_the_same_and_writes_nothing(api):
    foretold = run(api, check=True).as_result(diff=True)
    assert api.writes == []
    assert foretold.pop("would") == NOTHING
    assert run(api).as_result(diff=True) == foretold
    api.asked.clear()
    gone = run(api, state="absent", check=True).as_result(diff=True)
    assert api.writes == []
    assert gone.pop("would") == NOTHING
    assert run(api, state="absent").as_result(diff=True) == gone


def test_difference_shows_what_changes_by_path(api):
    run(api)
    more = [ROOT, BOTH[1], queue("b", "root", nominal={"cpu": 3})]
    shown = run(api, more).as_result(diff=True)["diff"]
    assert shown["before"] == {"queues": {"root/b": {"nominal": {"cpu": "4"}}}}
    assert shown["after"] == {"queues": {"root/b": {"nominal": {"cpu": "3"}}}}


def test_result_tells_queues_before_and_after_with_their_use(api):
    run(api)
    add_record(api, "one", phase="running", changes={"reserved": RESERVED})
    result = run(api, [*BOTH, queue("c", "root")]).as_result(diff=False)
    assert [item["path"] for item in result["before"]] == ["root", "root/a", "root/b"]
    leaf = next(item for item in result["queues"] if item["name"] == "a")
    assert (leaf["started"], leaf["resources"][0]["used"], leaf["resources"][0]["entitled"]) == (1, "2", "4")
    assert "diff" not in result


def test_wrong_tree_is_refused_before_a_server_is_asked():
    def nobody():
        raise AssertionError("no server is needed")

    options = QuotaOptions("default", "team", "present", {"queues": [queue("a", "gone")]})
    with pytest.raises(BadTree, match="gone/a: parent"):
        run_quota(nobody, options)


def test_over_capacity_is_refused_or_a_warning(api):
    much = [ROOT, queue("a", "root", nominal={"cpu": 9})]
    with pytest.raises(BadTree, match=r"root: capacity\.cpu"):
        run(api, much)
    assert api.writes == []
    assert run(api, much, over_capacity="warn").warnings == (
        "quota tree default: root: capacity.cpu: the leaves below have 9 nominal together, and capacity is 8",
    )


def test_leaf_in_use_is_not_taken_away(api):
    run(api)
    add_record(api, "one", phase="running", changes={"reserved": RESERVED})
    api.asked.clear()
    inner = [*BOTH[:1], queue("a", "root"), queue("deeper", "a"), BOTH[2]]
    for change in (lambda: run(api, ONE), lambda: run(api, inner), lambda: run(api, state="absent")):
        with pytest.raises(BadTree, match="root/a: 1 started gangs are charged to it; hold it"):
            change()
    assert api.writes == []
    assert run(api, [*BOTH[:2]]).changed


def test_leaf_that_nobody_uses_goes(api):
    run(api)
    add_record(api, "one")
    assert [item["path"] for item in run(api, ONE).as_result(diff=False)["queues"]] == ["root", "root/b"]
    assert run(api, state="absent").changed
    assert PATH not in api.objects
    assert not run(api, state="absent").changed


def test_nothing_is_taken_away_where_use_cannot_be_seen(api):
    run(api)
    api.fixed["GET", "/api/v1/configmaps"] = [refused(403, "Forbidden", "no")]
    with pytest.raises(BadTree, match="may not list the records of all gangs"):
        run(api, ONE)
    result = run(api, [*BOTH, queue("c", "root")]).as_result(diff=False)
    assert result["queues"][1]["resources"][0] == {
        "flavor": None,
        "resource": "cpu",
        "entitled": "4",
        **dict.fromkeys(("used", "borrowed", "lent", "headroom", "idle")),
    }
    assert result["notes"] == [
        "this account may not list the records of all gangs, so that nobody can tell what is used"
    ]


def test_configmap_of_others_is_left_alone(api):
    api.put(PATH, {"kind": "ConfigMap", "metadata": {"name": "muster-quota-default", "namespace": "team"}})
    for state in ("present", "absent"):
        with pytest.raises(BadInput, match="not marked as a quota tree"):
            run(api, state=state)
    assert api.writes == []


def test_tree_of_a_newer_version_is_left_alone(api):
    run(api)
    api.objects[PATH]["data"]["tree.json"] = '{"format": 2}'
    with pytest.raises(NewerVersion, match="format 2"):
        run(api)


def test_broken_tree_is_replaced_with_a_word(api):
    run(api)
    api.objects[PATH]["data"]["tree.json"] = "{"
    (warning,) = run(api).warnings
    assert warning.startswith("the stored tree could not be read and is replaced")
    assert not run(api).changed


def test_what_a_later_version_stored_survives(api):
    run(api)
    stored = api.objects[PATH]["data"]
    stored["tree.json"] = stored["tree.json"].replace('"format":1', '"format":1,"later":1')
    assert not run(api).changed
    run(api, [*BOTH, queue("c", "root")])
    assert '"later":1' in api.objects[PATH]["data"]["tree.json"]


def test_namespaces_that_may_not_be_listed_are_told(api):
    api.fixed["GET", "/api/v1/namespaces"] = [refused(403, "Forbidden", "no")]
    assert run(api).use.notes == ("this account may not list namespaces, so that no selector of a queue holds any",)
