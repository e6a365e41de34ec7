# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What profiles and wishes come to."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.component.catalogue import (
    component_options,
    overlaid,
    with_parameters,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.catalogue_rows import (
    SOURCE_KEYS,
    read_catalogue,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.versions import read_range, read_version
from ansible_collections.muster.kube.tests.support.stack_catalogue import (
    row,
    shipped_catalogue,
    small_catalogue,
    versions,
)
from hypothesis import given
from hypothesis import strategies as st

SMALL = read_catalogue(small_catalogue())
SHIPPED = read_catalogue(shipped_catalogue())
Wishes = dict[str, t.Any]


def chosen(*profiles: str, kubernetes: str | None = None, **wishes: t.Any) -> dict[str, t.Any]:
    """The components of the small catalogue, by name, in their order."""
    return {item["name"]: item for item in component_options(SMALL, profiles, wishes, kubernetes)}


def refusal(*profiles: str, **more: t.Any) -> str:
    with pytest.raises(BadInput) as caught:
        chosen(*profiles, **more)
    return str(caught.value)


def test_a_profile_brings_what_its_components_depend_on() -> None:
    assert list(chosen("pocket")) == ["gears", "watch"]
    assert list(chosen("loud")) == ["gears", "bell", "watch"]


def test_profiles_add_up() -> None:
    assert list(chosen("pocket", "loud")) == ["gears", "bell", "watch"]


def test_a_component_that_is_named_is_added() -> None:
    assert list(chosen(bell={})) == ["bell"]


def test_nothing_wanted_is_nothing() -> None:
    assert chosen() == {}


def test_a_component_is_handed_on_in_the_form_of_the_module() -> None:
    assert chosen("pocket")["watch"] == {
        "name": "watch",
        "version": "1.0.0",
        "source": "manifest",
        "src": "watch.yml",
        "namespace": "time",
        "depends_on": ["gears"],
        "resources": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dial"}, "data": {"hands": "2"}}],
        "row": {
            "title": "The watch",
            "proof": "none",
            "kubernetes": ">=1.29",
            "api_versions": [],
            "features": [],
            "reinvoke_beside": [],
            "expects": {},
            "removal": {},
        },
    }


def test_versions_follow_what_others_need() -> None:
    assert chosen(gears={})["gears"]["version"] == "3.0.0"
    assert chosen("pocket")["gears"]["version"] == "2.1.0"


def test_versions_follow_the_server() -> None:
    assert chosen(gears={}, kubernetes="v1.29.4-eks-1")["gears"]["version"] == "3.0.0"
    assert chosen(gears={}, kubernetes="v1.28.9+k3s1")["gears"]["version"] == "2.1.0"


def test_addresses_have_the_version_in_them() -> None:
    assert chosen(gears={})["gears"]["chart"] == "gears-3.0.0"
    assert chosen("pocket")["gears"]["chart"] == "gears-2.1.0"
    assert chosen(bell={})["bell"]["src"] == "https://example.com/0.1.0/bell.yml"


def test_a_version_may_be_pinned() -> None:
    assert chosen("pocket", gears={"version": "v2.0"})["gears"]["version"] == "2.0.0"


def test_a_version_that_a_profile_names_is_kept_unless_another_is_wished() -> None:
    data = small_catalogue("profiles", "old", "components", to={"gears": {"version": "2.0.0"}})
    catalogue = read_catalogue(data)
    picked = [
        component_options(catalogue, ["old"], {"gears": wish})[0]["version"]
        for wish in ({}, {"values": {}}, {"version": "3.0.0"})
    ]
    assert picked == ["2.0.0", "2.0.0", "3.0.0"]


@pytest.mark.parametrize(
    ("profiles", "more", "told"),
    [
        (["poket"], {}, "profile poket: it does not exist; did you mean pocket?"),
        (["pocket"], {"sundial": {}}, "watch and sundial cannot be in one cluster"),
        (["pocket", "old"], {}, "watch and sundial cannot be in one cluster"),
        (["pocket"], {"gears": {"version": "3.0.0"}}, "component gears 3.0.0: watch 1.0.0 needs gears >=2 <3"),
        (["pocket"], {"gears": {"version": "4.0.0"}}, "nothing is known about 4.0.0; known are 3.0.0, 2.1.0, 2.0.0"),
        (["pocket"], {"gears": {"version": "new"}}, "'new' is no version"),
        ([], {"watch": {"features": ["alarm", "silent"]}}, "the features alarm and silent cannot be on at once"),
        ([], {"watch": {"chart": "x"}}, "component watch: chart: its source is manifest; only helm takes this"),
        ([], {"gears": {"src": "x"}}, "only manifest and kustomize takes this"),
        ([], {"gears": {"source": "olm"}}, "component gears: olm: it is missing, and a olm needs it"),
        ([], {"gears": {"chart": "a:{verison}"}}, "{verison} stands for nothing; known are {version}, {chart_version}"),
        ([], {"gears": {"depends_on": ["watch"]}}, "it is a cycle: gears → watch → gears"),
        ([], {"gears": {"depends_on": ["wach"]}}, "did you mean watch?"),
    ],
)
def test_what_does_not_go_together_is_told_with_both_names(profiles: list[str], more: Wishes, told: str) -> None:
    assert told in refusal(*profiles, **more)


def test_a_server_outside_of_the_limits_is_told_for_each_component_at_once() -> None:
    told = refusal("loud", kubernetes="1.20.1")
    assert told.startswith("Cannot read the components: 3 things are wrong")
    for text in ("watch 1.0.0", "bell 0.1.0", "gears 2.1.0: it needs Kubernetes >=1.25, the server has 1.20.1"):
        assert text in told


def test_what_somebody_else_takes_care_of_is_left_out() -> None:
    found = chosen("pocket", gears={"skip": True})
    assert list(found) == ["watch"]
    assert found["watch"]["depends_on"] == []


def test_a_wish_may_take_back_that_a_component_is_left_out() -> None:
    data = small_catalogue("profiles", "pocket", "components", to={"watch": {"skip": True}, "bell": {}})
    catalogue = read_catalogue(data)
    assert [item["name"] for item in component_options(catalogue, ["pocket"], {})] == ["bell"]
    assert [item["name"] for item in component_options(catalogue, ["pocket"], {"watch": {"skip": False}})] == [
        "gears",
        "watch",
        "bell",
    ]


def test_values_are_laid_over_those_of_the_row_and_lists_take_their_place() -> None:
    found = chosen(gears={"values": {"a": {"c": [2], "d": None}, "e": 1}, "secret_values": {"key": "k"}})["gears"]
    assert found["values"] == {"a": {"b": 1, "c": [2], "d": None}, "e": 1}
    assert found["secret_values"] == {"key": "k"}


def test_addresses_may_be_replaced_and_so_may_the_source() -> None:
    found = chosen(gears={"source": "kustomize", "src": "/home/me/gears", "namespace": "mine"})["gears"]
    assert (found["source"], found["src"], found["namespace"]) == ("kustomize", "/home/me/gears", "mine")
    assert not {"chart", "repository", "chart_version", "values"} & set(found)


def test_the_version_of_a_chart_is_that_of_the_table() -> None:
    assert chosen(gears={})["gears"]["chart_version"] == "30"
    assert chosen(gears={"version": "2.0.0"})["gears"]["chart_version"] == "2.0.0"
    assert chosen(gears={"chart_version": "31"})["gears"]["chart_version"] == "31"
    assert "chart_version" not in chosen(bell={})["bell"]


def test_with_another_address_the_parts_of_the_old_one_go() -> None:
    assert chosen(gears={})["gears"]["repository"] == "https://charts.example"
    found = chosen(gears={"chart": "oci://mine.example/gears"})["gears"]
    assert (found["chart"], found.get("repository"), found.get("digest")) == ("oci://mine.example/gears", None, None)
    kept = chosen(gears={"repository": "https://mine.example"})["gears"]
    assert (kept["chart"], kept["repository"]) == ("gears-3.0.0", "https://mine.example")
    inline = chosen(bell={"definition": {"kind": "ConfigMap"}})["bell"]
    assert (inline["definition"], inline.get("src")) == ({"kind": "ConfigMap"}, None)


def test_a_feature_adds_to_lists_and_gives_an_object_of_the_same_name_another_form() -> None:
    found = chosen("loud")["watch"]
    assert found["depends_on"] == ["gears", "bell"]
    assert found["nodes"] == {"labels": ["alarm=7"]}
    assert [(item["metadata"]["name"], item["data"]) for item in found["resources"]] == [
        ("alarm", ["a"]),
        ("dial", {"hands": "3"}),
    ]
    assert found["row"]["features"] == ["alarm"]


def test_parameters_of_a_feature_may_be_set_and_add_up_over_profile_and_wish() -> None:
    found = chosen("loud", watch={"features": {"alarm": {"tones": ["b", "c"]}}})["watch"]
    assert found["resources"][0]["data"] == ["b", "c"]
    assert found["nodes"] == {"labels": ["alarm=7"]}


def test_lists_of_the_user_stand_for_the_whole() -> None:
    assert chosen("loud", watch={"resources": [], "depends_on": []})["watch"]["resources"] == []


def test_a_condition_of_another_form_has_no_part_of_the_one_before() -> None:
    by_path = {"api_version": "v1", "kind": "K", "name": "n", "path": "status.state", "value": "ready"}
    by_type = {"api_version": "v1", "kind": "K", "name": "n", "type": "Ready"}
    catalogue = read_catalogue({"components": [row("a", condition=by_path)], "versions": {"a": versions("1.0.0")}})
    (found,) = component_options(catalogue, [], {"a": {"condition": by_type}})
    assert found["condition"] == by_type


def test_a_version_may_have_another_address() -> None:
    lines = [*versions("2.0.0"), *versions("1.0.0", **{"with": {"source": "kustomize", "src": "old/{version}"}})]
    catalogue = read_catalogue({"components": [row("a")], "versions": {"a": lines}})
    assert [component_options(catalogue, [], {"a": {"version": item}})[0]["src"] for item in ("2.0.0", "1.0.0")] == [
        "a.yml",
        "old/1.0.0",
    ]


def test_components_that_a_version_excludes_are_told_by_both() -> None:
    lines = {"a": versions("1.0.0", excludes={"b": ">=2"}), "b": versions("3.0.0", "2.0.0")}
    catalogue = read_catalogue({"components": [row("a"), row("b")], "versions": lines})
    with pytest.raises(BadInput, match=r"a 1\.0\.0: it excludes b >=2, and 3\.0\.0 is chosen"):
        component_options(catalogue, [], {"a": {}, "b": {}})
    with pytest.raises(BadInput, match=r"b 3\.0\.0: a 1\.0\.0 excludes b >=2"):
        component_options(catalogue, [], {"b": {}, "a": {}})


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 3), st.text("ab", max_size=2), st.lists(st.integers(0, 2), max_size=2)
)
MAPPINGS = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3), max_leaves=8
).filter(lambda value: isinstance(value, dict))


@given(MAPPINGS, MAPPINGS)
def test_what_is_laid_over_shows_wherever_it_says_something(base: Wishes, over: Wishes) -> None:
    merged = overlaid(base, over)
    assert overlaid(merged, over) == merged
    assert overlaid(base, {}) == base
    for key in set(base) | set(over):
        if not (isinstance(base.get(key), dict) and isinstance(over.get(key), dict)):
            assert merged[key] == (over if key in over else base)[key]


@given(MAPPINGS)
def test_without_parameters_nothing_is_filled_in(value: Wishes) -> None:
    assert with_parameters(value, {}) == value


def test_only_names_of_parameters_are_filled_in() -> None:
    texts = ["{a}", "x{a}y", "{b}", "{ a }", '{"a": 1}', "{a}{a}"]
    assert with_parameters(texts, {"a": [1]}) == [[1], "x[1]y", "{b}", "{ a }", '{"a": 1}', "[1][1]"]


ROWS = sorted(SHIPPED.rows)
PROFILES = sorted(SHIPPED.profiles)


@given(
    st.lists(st.sampled_from(PROFILES), max_size=2, unique=True),
    st.dictionaries(st.sampled_from(ROWS), st.sampled_from([{}, {"skip": True}]), max_size=6),
    st.one_of(st.none(), st.integers(20, 40).map(lambda minor: f"v1.{minor}.1")),
)
def test_whatever_is_wanted_of_the_shipped_catalogue_is_consistent_or_refused(
    profiles: list[str], wishes: Wishes, kubernetes: str | None
) -> None:
    try:
        found = component_options(SHIPPED, profiles, wishes, kubernetes)
    except BadInput:
        return
    names = [item["name"] for item in found]
    picked = {item["name"]: read_version(item["version"], "t") for item in found}
    assert len(names) == len(set(names))
    assert not {name for name, wish in wishes.items() if wish.get("skip")} & set(names)
    assert {name for name, wish in wishes.items() if not wish.get("skip")} <= set(names)
    for place, item in enumerate(found):
        assert set(item["depends_on"]) <= set(names[:place])
        assert not set(SHIPPED.rows[item["name"]].excludes) & set(names)
        (line,) = [line for line in SHIPPED.rows[item["name"]].versions if line.text == item["version"]]
        assert kubernetes is None or line.kubernetes.holds(read_version(kubernetes, "t"))
        assert all(bounds.holds(picked[other]) for other, bounds in line.needs.items() if other in picked)
        assert not any(bounds.holds(picked[other]) for other, bounds in line.excludes.items() if other in picked)


@given(
    st.lists(
        st.lists(st.sampled_from([">=1", ">=2", "<2", "<3", "=2", "*"]), min_size=1, max_size=2), min_size=1, max_size=3
    )
)
def test_the_first_version_of_the_table_that_all_allow_is_chosen(needs: list[list[str]]) -> None:
    texts = ["3.0.0", "2.0.0", "1.0.0"]
    users = {
        f"user{index}": versions("1.0.0", needs={"gears": " ".join(item).replace("* ", "").replace(" *", "")})
        for index, item in enumerate(needs)
    }
    rows = [row("gears"), *(row(name, depends_on=["gears"]) for name in users)]
    catalogue = read_catalogue({"components": rows, "versions": {"gears": versions(*texts), **users}})
    bounds = [read_range(line["needs"]["gears"], "t") for (line,) in users.values()]
    good = [text for text in texts if all(item.holds(read_version(text, "t")) for item in bounds)]
    wishes: Wishes = {name: {} for name in users}
    if not good:
        with pytest.raises(BadInput, match="needs gears"):
            component_options(catalogue, [], wishes)
        return
    assert component_options(catalogue, [], wishes)[0]["version"] == good[0]


@pytest.mark.parametrize(
    ("name", "feature"), [(name, feature) for name in ROWS for feature in (None, *SHIPPED.rows[name].features)]
)
def test_each_shipped_row_can_be_installed_alone_with_each_of_its_features(name: str, feature: str | None) -> None:
    found = component_options(SHIPPED, [], {name: {"features": [feature] if feature else []}}, "1.33.1")
    item = found[-1]
    assert item["name"] == name
    assert item["source"] in SOURCE_KEYS
    address = str(item.get("chart") or item.get("src") or item.get("olm"))
    assert "{" not in address or item["source"] == "olm"
    assert "{" not in str(item.get("nodes", "")).replace("{'", "")


@pytest.mark.parametrize(
    ("one", "other"), [pair for pair in itertools.permutations(PROFILES, 2) if "rhoai" not in pair]
)
def test_profiles_can_be_combined(one: str, other: str) -> None:
    found = {item["name"] for item in component_options(SHIPPED, [one, other], {}, "1.33.1")}
    assert {*SHIPPED.profiles[one].choices, *SHIPPED.profiles[other].choices} <= found


def test_openshift_ai_brings_its_own_ray() -> None:
    with pytest.raises(BadInput, match=r"(kuberay|kueue) and rhoai cannot be in one cluster"):
        component_options(SHIPPED, ["rhoai", "gang"], {})


def test_the_amd_resource_manager_gets_the_versions_that_kaiwo_can_speak_with() -> None:
    found = {item["name"]: item for item in component_options(SHIPPED, ["amd_resource_manager"], {}, "1.33.1")}
    assert (found["kueue"]["version"], found["kueue"]["source"]) == ("0.12.3", "kustomize")
    assert found["appwrapper"]["version"] == "1.1.2"
    assert found["kaiwo"]["condition"]["value"] == "READY"
    assert found["kueue"]["row"]["reinvoke_beside"] == ["kaiwo", "kyverno"]


def test_time_slicing_tells_the_device_plugin_how_many_pods_share_a_gpu() -> None:
    wish = {"nvidia-gpu-operator": {"features": {"time_slicing": {"replicas": 8}, "tolerations": {}}}}
    item = component_options(SHIPPED, [], wish)[-1]
    config = item["values"]["devicePlugin"]["config"]
    assert "replicas: 8" in config["data"]["any"]
    assert "name: nvidia.com/gpu" in config["data"]["any"]
    assert item["nodes"]["labels"] == ["nvidia.com/gpu.present=true", "nvidia.com/gpu.replicas=8"]
    assert item["values"]["daemonsets"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert item["values"]["nfd"] == {"enabled": False}


def test_partitions_change_the_device_config_that_there_is() -> None:
    item = component_options(SHIPPED, [], {"amd-gpu-operator": {"features": ["partitions"]}})[-1]
    assert [obj["kind"] for obj in item["resources"]] == ["ConfigMap", "DeviceConfig"]
    assert item["resources"][1]["spec"]["configManager"]["enable"] is True
