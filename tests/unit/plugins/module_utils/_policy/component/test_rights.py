# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rights that a plan needs, and the role that holds them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.component.rights import (
    EVERYTHING,
    RBAC,
    KindPlace,
    NeededRights,
    Right,
    RoleKey,
    bound_roles,
    is_covered,
    needs_of,
    rights_of_rule,
    role_objects,
)
from ansible_collections.muster.kube.tests.support.memory_reviews import holder_of
from hypothesis import given
from hypothesis import strategies as st

Object = dict[str, t.Any]
PLACES = {
    "ConfigMap": KindPlace("", "configmaps", True),
    "Namespace": KindPlace("", "namespaces", False),
    "Deployment": KindPlace("apps", "deployments", True),
    "ClusterRole": KindPlace(RBAC, "clusterroles", False),
    "Role": KindPlace(RBAC, "roles", True),
    "ClusterRoleBinding": KindPlace(RBAC, "clusterrolebindings", False),
    "RoleBinding": KindPlace(RBAC, "rolebindings", True),
}
PODS = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}


def make(kind: str, name: str, namespace: str = "", **more: t.Any) -> Object:
    group = PLACES[kind].group
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": metadata, **more}


def binding(kind: str, role: str, role_kind: str = "ClusterRole", namespace: str = "") -> Object:
    return make(kind, f"bind-{role}", namespace, roleRef={"apiGroup": RBAC, "kind": role_kind, "name": role})


def needs(*objects: Object, roles: dict[RoleKey, t.Any] | None = None) -> NeededRights:
    return needs_of(list(objects), lambda obj: PLACES[obj["kind"]], roles or {})


def missing(found: NeededRights, *held: Right) -> list[str]:
    return [str(right) for right in sorted(found.missing(set(held)))]


def test_an_object_takes_getting_patching_and_creating() -> None:
    found = needs(make("ConfigMap", "a", "home"), make("Namespace", "home"))
    assert missing(found) == [
        "create configmaps in home",
        "create namespaces",
        "get configmaps a in home",
        "get namespaces home",
        "patch configmaps a in home",
        "patch namespaces home",
    ]
    assert found.missing(set())[Right("create", "", "configmaps", "home")] == "ConfigMap home/a"


def test_a_role_takes_the_rights_that_it_gives_or_leave_to_escalate() -> None:
    found = needs(make("Role", "r", "home", rules=[PODS]))
    given_away = ["get pods in home", "get pods/log in home", "list pods in home", "list pods/log in home"]
    direct = set(found.direct)
    assert missing(found, *direct) == given_away
    assert missing(found, *direct, Right("escalate", RBAC, "roles", "home", "r")) == []
    assert missing(found, *direct, *rights_of_rule(PODS, "home")) == []


def test_the_rights_of_a_cluster_role_are_needed_in_the_whole_cluster() -> None:
    found = needs(make("ClusterRole", "r", rules=[PODS]))
    assert "get pods" in missing(found, *rights_of_rule(PODS, "home"))


def test_a_binding_takes_the_rights_of_the_role_that_is_made_with_it() -> None:
    found = needs(make("ClusterRole", "r", rules=[PODS]), binding("RoleBinding", "r", namespace="home"))
    held = {*found.direct, Right("escalate", RBAC, "clusterroles", "", "r")}
    assert "list pods in home" in missing(found, *held)
    assert missing(found, *held, Right("bind", RBAC, "clusterroles", "home", "r")) == []


def test_a_binding_takes_the_rights_of_a_role_that_is_there() -> None:
    roles = {RoleKey("ClusterRole", "", "view"): [PODS]}
    found = needs(binding("ClusterRoleBinding", "view"), roles=roles)
    assert "list pods" in missing(found, *found.direct)
    assert missing(found, *found.direct, *rights_of_rule(PODS)) == []


def test_a_role_that_nobody_can_read_takes_the_right_to_bind_it() -> None:
    found = needs(binding("RoleBinding", "secret", "Role", "home"), roles={RoleKey("Role", "home", "secret"): None})
    assert missing(found, *found.direct) == ["bind roles.rbac.authorization.k8s.io secret in home"]


def test_a_role_that_gathers_others_takes_leave_to_escalate() -> None:
    gathering = make("ClusterRole", "all", aggregationRule={"clusterRoleSelectors": []}, rules=[])
    found = needs(gathering, binding("ClusterRoleBinding", "all"))
    assert missing(found, *found.direct) == [
        "bind clusterroles.rbac.authorization.k8s.io all",
        "escalate clusterroles.rbac.authorization.k8s.io all",
    ]


def test_only_roles_from_elsewhere_are_looked_up() -> None:
    objects = [
        make("ClusterRole", "mine"),
        binding("ClusterRoleBinding", "mine"),
        binding("RoleBinding", "view", namespace="home"),
        binding("RoleBinding", "mine", "Role", "home"),
    ]
    assert bound_roles(objects) == {RoleKey("ClusterRole", "", "view"), RoleKey("Role", "home", "mine")}


def test_names_and_addresses_in_rules_are_single_rights() -> None:
    rule = {"apiGroups": ["a", "b"], "resources": ["x"], "resourceNames": ["n", "m"], "verbs": ["get"]}
    assert len(set(rights_of_rule(rule, "home"))) == 4
    assert set(rights_of_rule({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, "home")) == {
        Right("get", url="/metrics")
    }
    assert set(rights_of_rule({})) == set()


@pytest.mark.parametrize(
    ("right", "wider"),
    [
        (Right("get", "apps", "deployments", "home", "a"), Right("get", "apps", "deployments", "home")),
        (Right("get", "apps", "deployments", "home", "a"), Right("get", "apps", "deployments", name="a")),
        (Right("get", "apps", "deployments", "home", "a"), Right("*", "*", "*")),
        (Right("get", "", "pods/log"), Right("get", "", "*/log")),
        (Right("get", "", "pods/log"), Right("get", "", "*")),
        (Right("get", url="/metrics/a"), Right("get", url="/metrics/*")),
        (Right("get", url="/metrics"), Right("*", url="*")),
    ],
)
def test_wider_rights_cover_narrower_ones(right: Right, wider: Right) -> None:
    assert is_covered(right, {wider})
    assert not is_covered(wider, {right})


@pytest.mark.parametrize(
    "other",
    [
        Right("get", "", "pods/log", "home"),
        Right("get", "apps", "pods"),
        Right("list", "", "pods"),
        Right("get", "", "pods", "other"),
        Right("get", "", "pods", "home", "a"),
        Right("get", url="*"),
        Right("get", "", "pods", "home"),
    ],
)
def test_other_rights_do_not(other: Right) -> None:
    assert not is_covered(Right("get", "", "pods", "home"), {other})


def test_a_role_is_as_short_as_it_can_be() -> None:
    rights = {
        *rights_of_rule({"apiGroups": ["apps"], "resources": ["deployments", "daemonsets"], "verbs": ["get", "list"]}),
        Right("get", "apps", "deployments", "home", "operator"),
        Right("create", "", "configmaps", "home"),
        Right("create", "", "secrets", "new"),
        Right("get", "", "configmaps", "home", "b"),
        Right("get", "", "configmaps", "home", "a"),
        Right("get", url="/metrics"),
    }
    whole, local = role_objects(rights, "me", {"new"})
    assert (whole["kind"], whole["metadata"], local["kind"], local["metadata"]) == (
        "ClusterRole",
        {"name": "me"},
        "Role",
        {"name": "me", "namespace": "home"},
    )
    assert whole["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": ["apps"], "resources": ["daemonsets", "deployments"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    assert local["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]},
    ]


@pytest.mark.parametrize(
    ("right", "asked"),
    [
        (
            Right("get", "apps", "deployments/scale", "home", "a"),
            {
                "resourceAttributes": {
                    "verb": "get",
                    "group": "apps",
                    "resource": "deployments",
                    "subresource": "scale",
                    "namespace": "home",
                    "name": "a",
                }
            },
        ),
        (Right("list", "", "pods"), {"resourceAttributes": {"verb": "list", "resource": "pods"}}),
        (Right("get", url="/metrics"), {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
    ],
)
def test_rights_are_asked_for_in_the_words_of_the_server(right: Right, asked: Object) -> None:
    assert right.attributes() == asked


VERBS = st.sampled_from(["get", "list", "create", "*"])
GROUPS = st.sampled_from(["", "apps", "*"])
RESOURCES = st.sampled_from(["pods", "pods/log", "deployments", "*", "*/log"])
NAMESPACES = st.sampled_from(["", "home", "new"])
NAMES = st.sampled_from(["", "", "a", "b"])
URLS = st.sampled_from(["/metrics", "/metrics/a", "/metrics/*", "*"])
RIGHTS = st.one_of(
    st.builds(lambda *parts: Right(*parts), VERBS, GROUPS, RESOURCES, NAMESPACES, NAMES),
    st.builds(lambda verb, url: Right(verb, url=url), VERBS, URLS),
)
RULES = st.one_of(
    st.fixed_dictionaries(
        {
            "verbs": st.lists(VERBS, min_size=1, max_size=2),
            "apiGroups": st.lists(GROUPS, min_size=1, max_size=2),
            "resources": st.lists(RESOURCES, min_size=1, max_size=2),
            "resourceNames": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"verbs": st.lists(VERBS, min_size=1, max_size=1), "nonResourceURLs": st.lists(URLS, min_size=1)}
    ),
)


def holds(roles: list[Object], right: Right) -> bool:
    return holder_of(roles)("me", right.attributes())


@given(st.sets(RIGHTS, min_size=1, max_size=12), st.sampled_from([set(), {"new"}]))
def test_the_role_holds_every_right_and_none_of_its_rules_is_idle(rights: set[Right], made: set[str]) -> None:
    roles = role_objects(rights, "me", made)
    assert [right for right in rights if not holds(roles, right)] == []
    for role in roles:
        for rule in role["rules"]:
            others = [{**item, "rules": [other for other in item["rules"] if other is not rule]} for item in roles]
            assert any(not holds(others, right) for right in rights), rule


@given(st.sets(RIGHTS, max_size=8), RIGHTS)
def test_what_covers_a_right_is_what_the_server_takes_for_it(rights: set[Right], right: Right) -> None:
    roles = role_objects(rights, "me", set())
    assert holds(roles, right) == (right in rights or is_covered(right, rights))


@given(st.lists(RULES, min_size=1, max_size=3), st.booleans())
def test_whoever_holds_what_is_needed_lacks_nothing(rules: list[Object], whole: bool) -> None:
    kind, namespace = ("ClusterRole", "") if whole else ("Role", "home")
    found = needs(
        make(kind, "r", namespace, rules=rules),
        binding(f"{kind}Binding", "r", kind, namespace),
        make("Namespace", "home"),
    )
    roles = role_objects(found.all_rights(), "me", set())
    asked = found.first_questions()
    held = {right for right in asked if holds(roles, right)}
    held |= {right for right in found.further_questions(held) if holds(roles, right)}
    assert found.missing(held) == {}
    assert found.missing(set()) != {}
    assert found.missing({*found.all_rights(), *EVERYTHING}) == {}
