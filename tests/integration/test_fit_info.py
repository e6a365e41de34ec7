# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fit_info for real: against a real API server, in good days and bad ones.

What Ansible has a part in is asked by ansible-playbook; the rest calls the module in this process, which is faster.
"""

from __future__ import annotations

import base64
import pathlib
import re

import pytest
import yaml
from ansible_collections.muster.kube.plugins.filter import from_quantity, podsets, to_quantity, verdict_text
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.plugins.modules import fit_info
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.live_cluster import is_bound, wait_until
from ansible_collections.muster.kube.tests.support.module_call import call_tasks
from ansible_collections.muster.kube.tests.support.play import play_tasks

POOL = "fit-pool"
PLAIN, RULED, STRICT, PAGED = "fit-plain", "fit-ruled", "fit-strict", "fit-paged"
# More than one page of a list, so that a list has a middle.
MANY = 1001


def ask(**options):
    """A task that asks fit_info."""
    return {"muster.kube.fit_info": options}


def pool_podset(pool, count, name=None, **requests):
    """Pods that may use the nodes of one pool only."""
    return {"name": name or pool, "count": count, "requests": requests, "spec": {"nodeSelector": {POOL: pool}}}


def gang(name, *items):
    """A gang of declared podsets."""
    return {"name": name, "podsets": list(items)}


def job(name, count, pool="pair", **resources):
    """A Job confined to a pool."""
    container = {"name": "main", "image": "none", "resources": resources}
    pod = {"restartPolicy": "Never", "nodeSelector": {POOL: pool}, "containers": [container]}
    spec = {"parallelism": count, "completions": count, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def node(name, pool, **amounts):
    """A kwok node."""
    meta = {"name": name, "labels": {POOL: pool, "kubernetes.io/hostname": name}}
    meta["annotations"] = {"kwok.x-k8s.io/node": "fake"}
    size = {"pods": "110", **amounts}
    status = {"allocatable": size, "capacity": size}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def tenant(name, pool, namespace=PLAIN, **requests):
    """A pod that the scheduler shall put into a pool, one to a node."""
    meta = {"name": name, "namespace": namespace, "labels": {"tenant": pool}}
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}
    apart = {"labelSelector": {"matchLabels": {"tenant": pool}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    spec = {"nodeSelector": {POOL: pool}, "affinity": affinity, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def rule(kind, name, namespace, spec):
    """A ResourceQuota or LimitRange."""
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}


NODES = [
    node("fit-seed", "seed", cpu="8", memory="8118372Ki"),
    node("fit-pair-1", "pair", cpu="2", memory="8Gi"),
    node("fit-pair-2", "pair", cpu="2", memory="8Gi"),
    node("fit-quota", "quota", cpu="64", memory="64Gi"),
]


@pytest.fixture(scope="module")
def world(cluster):
    """Nodes with real pods on them, and namespaces with rules of their own."""
    cluster.add_nodes(NODES)
    for name in (PLAIN, RULED, STRICT, PAGED):
        cluster.namespace(name)
    defaults = {"type": "Container", "defaultRequest": {"cpu": "600m"}, "default": {"cpu": "900m"}}
    rules = [
        rule("LimitRange", "defaults", RULED, {"limits": [defaults]}),
        rule("ResourceQuota", "budget", RULED, {"hard": {"requests.cpu": "2", "pods": "10"}}),
        rule("LimitRange", "ceiling", STRICT, {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}),
    ]
    cluster.create(*rules)
    budget = cluster.path(rules[1])
    wait_until("the quota to be counted", lambda: (get_object(cluster.client, budget).get("status") or {}).get("hard"))
    pods = [
        tenant("seed", "seed", cpu="6050m", memory="6824650Ki"),
        tenant("pair-1", "pair", cpu="1025m"),
        tenant("pair-2", "pair", cpu="1025m"),
        tenant("spender", "quota", RULED, cpu="1"),
    ]
    cluster.create(*pods)
    wait_until("the tenants to be placed", lambda: all(is_bound(pod) for pod in cluster.pods(PLAIN)))
    wait_until("the budget to be used", lambda: get_object(cluster.client, budget)["status"]["used"].get("pods") == "1")
    yield cluster
    for name in (PLAIN, RULED, STRICT, PAGED):
        cluster.drop_namespace(name)
    wait_until("the tenants to end", lambda: not cluster.pods(PLAIN) and not cluster.pods(RULED))
    cluster.remove_nodes(item["metadata"]["name"] for item in NODES)


def slots(verdict):
    """The numbers of the layer that counts slots."""
    return next(layer for layer in verdict["layers"] if layer["layer"] == "slots")


def only(result):
    """The one verdict of a result."""
    (verdict,) = result["verdicts"]
    return verdict


PAIR_GANGS = [
    gang("first", pool_podset("pair", 2, cpu="550m")),
    gang("too-big", pool_podset("pair", 2, cpu="427m")),
    gang("split", pool_podset("pair", 1, cpu="850m")),
    gang("exact", pool_podset("pair", 2, cpu="425m")),
]
SAME = job("same", 2, requests={"cpu": "500m"})
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
TEXT = yaml.safe_dump_all([CONFIG, SAME])
BAD_QUANTITY = job("train", 1, requests={"cpu": "lots"})
UNKNOWN = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
SEED_GANG = [
    pool_podset("seed", 1, "head", cpu="1", memory="2G"),
    pool_podset("seed", 1, "worker", cpu="2", memory="2G"),
]
QUESTIONS = {
    "seed": ask(namespace=PLAIN, name="ray", podsets=SEED_GANG),
    "seed_text": {"ansible.builtin.set_fact": {"said": "{{ seed.verdicts[0] | muster.kube.verdict_text }}"}},
    "together": ask(namespace=PLAIN, gangs=PAIR_GANGS),
    "alone": ask(namespace=PLAIN, gangs=PAIR_GANGS, cumulative=False),
    "no_advice": ask(namespace=PLAIN, podsets=[pool_podset("pair", 2, cpu="976m")], advice=False),
    "with_advice": ask(namespace=PLAIN, podsets=[pool_podset("pair", 2, cpu="976m")]),
    "as_dict": ask(namespace=PLAIN, definition=SAME),
    "as_list": ask(namespace=PLAIN, definition=[CONFIG, SAME], name="same"),
    "as_text": ask(namespace=PLAIN, definition=TEXT, name="same"),
    "as_file": ask(namespace=PLAIN, src="{{ source }}", name="same"),
    "checked": {**ask(namespace=PLAIN, definition=SAME), "check_mode": True},
    "in_object": ask(definition={**SAME, "metadata": {"name": "same", "namespace": PLAIN}}),
    "quota": ask(namespace=RULED, definition=job("spend", 2, pool="quota")),
    "quota_exact": ask(
        namespace=RULED, definition=job("spend", 1, pool="quota", requests={"cpu": "1"}, limits={"cpu": "1"})
    ),
    "quota_never": ask(
        namespace=RULED, definition=job("spend", 2, pool="quota", requests={"cpu": "1500m"}, limits={"cpu": "2"})
    ),
    "spoiled": ask(namespace=RULED, definition=job("spend", 1, pool="quota", requests={"cpu": "1"})),
    "ceiling": ask(namespace=STRICT, definition=job("tall", 1, pool="quota", limits={"cpu": "1"})),
    "under_ceiling": ask(namespace=STRICT, definition=job("short", 1, pool="quota", limits={"cpu": "500m"})),
    "no_namespace": ask(namespace="fit-nowhere", definition=SAME),
    "bad_quantity": ask(namespace=PLAIN, definition=BAD_QUANTITY),
    "bad_podset": ask(namespace=PLAIN, gangs=[gang("g", {"count": 1, "requests": {"memory": "12parsecs"}})]),
    "unknown_kind": ask(namespace=PLAIN, definition=UNKNOWN),
    "unknown_kind_declared": ask(
        namespace=PLAIN, definition=UNKNOWN, podsets=[pool_podset("pair", 1, cpu="100m")], name="widget"
    ),
    "empty": ask(namespace=PLAIN, gangs=[{"name": "hollow", "definition": []}]),
    "podless": ask(namespace=PLAIN, definition=CONFIG),
    "not_yaml": ask(namespace=PLAIN, definition="a: [b"),
    "no_file": ask(namespace=PLAIN, src="/nowhere/gang.yml"),
    "two_namespaces": ask(namespace=PLAIN, definition={**SAME, "metadata": {"name": "same", "namespace": RULED}}),
    "wrong_option": ask(namespace=PLAIN, definition=SAME, cumulativ=True),
    "nothing": ask(namespace=PLAIN),
    "both": ask(namespace=PLAIN, definition=SAME, gangs=PAIR_GANGS),
}
# Templates, files, check mode, and what Ansible itself says about options.
PLAYED = (
    "seed",
    "seed_text",
    "together",
    "as_dict",
    "as_text",
    "as_file",
    "checked",
    "bad_quantity",
    "wrong_option",
    "both",
)


@pytest.fixture(scope="module")
def answers(world, tmp_path_factory):
    """All questions, through a proxy; those in the play name the cluster once for the whole action group."""
    directory = tmp_path_factory.mktemp("fit")
    source = directory / "gang.yml"
    source.write_text(TEXT, encoding="utf-8")
    with ApiProxy(world.kubeconfig, directory) as proxy:
        played = play_tasks(
            directory,
            {name: QUESTIONS[name] for name in PLAYED},
            variables={"source": str(source)},
            module_defaults={"group/muster.kube.kube": {"kubeconfig": str(proxy.kubeconfig)}},
        )
        others = {name: task for name, task in QUESTIONS.items() if name not in PLAYED}
        called = call_tasks(fit_info, others, kubeconfig=str(proxy.kubeconfig))
    assert proxy.requests
    assert_no_writes(proxy)
    return {**played.results, **called}


def test_the_seed_gang_waits_short_of_exactly_what_is_missing(answers):
    verdict = only(answers["seed"])
    assert (verdict["answer"], verdict["reason"]) == ("waits", "insufficient")
    totals = slots(verdict)["totals"]
    assert totals["cpu"] == {"requested": "3", "free": "1950m", "short": "1050m"}
    assert from_quantity.from_quantity(totals["memory"]["short"]) == 2_675_228_672
    assert answers["seed"]["fits"] is False
    said = answers["seed_text"]["ansible_facts"]["said"]
    assert "1050m cpu" in said
    assert "2675228672" in said


def test_gangs_in_one_call_take_their_place_one_after_the_other(answers):
    first, too_big, split, exact = answers["together"]["verdicts"]
    assert [item["answer"] for item in (first, too_big, split, exact)] == ["fits", "waits", "waits", "fits"]
    assert first["placement"] == {"pair": {"fit-pair-1": 1, "fit-pair-2": 1}}
    assert exact["placement"] == {"pair": {"fit-pair-1": 1, "fit-pair-2": 1}}
    (podset,) = slots(too_big)["podsets"]
    assert podset["nearest"]["short"] == {"cpu": "2m"}
    assert podset["largest_hole"]["cpu"] == "425m"
    assert slots(too_big)["totals"]["cpu"]["short"] == "4m"
    assert split["reason"] == "fragmentation"
    assert slots(split)["podsets"][0]["largest_hole"]["cpu"] == "425m"
    assert "425m" in verdict_text.to_text(split)
    assert slots(split)["totals"]["cpu"]["short"] == "0"


def test_gangs_judged_alone_do_not_see_each_other(answers):
    assert answers["alone"]["fits"] is True
    assert [item["answer"] for item in answers["alone"]["verdicts"]] == ["fits"] * 4


def test_advice_is_given_unless_it_is_not_wanted(answers):
    assert only(answers["no_advice"])["answer"] == "waits"
    assert only(answers["no_advice"])["advice"] == []
    advice = only(answers["with_advice"])["advice"]
    assert all(item["text"] for item in advice)
    # One whole node takes both pods, so one tenant is enough, no matter which.
    ending = next(item["pods"] for item in advice if item["change"] == "pods_end")
    assert len(ending) == 1
    assert set(ending) <= {f"{PLAIN}/pair-1", f"{PLAIN}/pair-2"}


@pytest.mark.parametrize("form", ["as_list", "as_text", "as_file", "checked", "in_object"])
def test_every_form_of_a_definition_gives_the_same_verdict(answers, form):
    assert only(answers["as_dict"])["answer"] == "fits"
    assert only(answers[form]) == only(answers["as_dict"])
    assert answers[form]["changed"] is False


def test_defaults_of_the_namespace_count_against_its_quota(answers):
    verdict = only(answers["quota"])
    assert (verdict["answer"], verdict["reason"]) == ("waits", "namespace_quota")
    lines = {line["resource"]: line for line in verdict["layers"][0]["quotas"]}
    cpu = {key: lines["requests.cpu"][key] for key in ("hard", "used", "requested", "short")}
    assert cpu == {"hard": "2", "used": "1", "requested": "1200m", "short": "200m"}
    assert lines["pods"]["short"] == "0"
    assert slots(verdict)["podsets"][0]["requests"]["cpu"] == "600m"
    assert "200m" in verdict_text.to_text(verdict)
    assert only(answers["quota_exact"])["answer"] == "fits"
    assert only(answers["quota_never"])["answer"] == "never"


def test_a_default_limit_below_the_request_makes_a_pod_invalid(answers):
    """The server refuses it, since no request may be larger than its limit."""
    verdict = only(answers["spoiled"])
    assert (verdict["answer"], verdict["reason"]) == ("never", "limit_range")


def test_a_limit_range_refuses_what_is_too_tall(answers):
    verdict = only(answers["ceiling"])
    assert (verdict["answer"], verdict["reason"]) == ("never", "limit_range")
    (problem,) = verdict["layers"][0]["problems"]
    assert "ceiling" in problem
    assert "container main" in problem
    assert "500m" in problem
    assert only(answers["under_ceiling"])["answer"] == "fits"


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("no_namespace", ["namespace fit-nowhere", "does not exist"]),
        ("bad_quantity", ["Job fit-plain/train", "spec.template.spec.containers[0].resources.requests.cpu", "'lots'"]),
        ("bad_podset", ["podsets[0].requests.memory", "'12parsecs'"]),
        ("unknown_kind", ["Widget", "podsets"]),
        ("empty", ["gang hollow", "empty"]),
        ("podless", ["none of its objects runs a pod"]),
        ("not_yaml", ["not YAML"]),
        ("no_file", ["/nowhere/gang.yml"]),
        ("two_namespaces", ["Job same", "fit-ruled", "fit-plain"]),
        ("wrong_option", ["cumulativ"]),
        ("nothing", ["one of the following is required", "definition"]),
        ("both", ["mutually exclusive", "gangs"]),
    ],
)
def test_bad_input_is_named(answers, question, words):
    result = answers[question]
    assert result["failed"] is True
    assert "Traceback" not in str(result)
    assert [word for word in words if word not in result["msg"]] == []


def test_an_unknown_kind_is_judged_by_its_declared_podsets(answers):
    verdict = only(answers["unknown_kind_declared"])
    assert (verdict["gang"], verdict["answer"]) == ("widget", "fits")


def test_a_failure_carries_action_object_and_cause(answers):
    error = answers["bad_quantity"]["error"]
    assert error["action"] == "read"
    assert error["object"].endswith("requests.cpu")
    assert "lots" in error["cause"]


@pytest.fixture(scope="module")
def limited_token(world):
    """A token for an account that may read the rules of its namespace and nothing else."""
    meta = {"name": "limited", "namespace": RULED}
    verbs = {"apiGroups": [""], "resources": ["resourcequotas", "limitranges"], "verbs": ["get", "list"]}
    group = "rbac.authorization.k8s.io"
    world.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    world.create({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": [verbs]})
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": meta}
    binding["roleRef"] = {"apiGroup": group, "kind": "Role", "name": "limited"}
    binding["subjects"] = [{"kind": "ServiceAccount", **meta}]
    world.create(binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {}}
    path = resource_path("v1", "serviceaccounts", RULED, "limited", "token")
    return create(world.client, path, request)["status"]["token"]


@pytest.fixture(scope="module")
def connections(world, limited_token, tmp_path_factory):
    """The same question over connections given in other ways, loudly."""
    directory = tmp_path_factory.mktemp("connections")
    config = yaml.safe_load(pathlib.Path(world.kubeconfig).read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    authority = directory / "ca.pem"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    # Names that also stand in results.
    user = config["users"][0]["user"]
    words = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "default",
        "clusters": [{"name": "cpu", "cluster": cluster}],
        "users": [{"name": "waits", "user": user}],
        "contexts": [{"name": "default", "context": {"cluster": "cpu", "user": "waits", "namespace": "default"}}],
    }
    waiting = {"namespace": "default", "name": "v1", "podsets": [pool_podset("pair", 2, cpu="976m")]}
    limited = {"host": cluster["server"], "ca_cert": str(authority), "api_key": limited_token}
    tasks = {
        "dict": ask(kubeconfig=words, **waiting),
        "path": ask(kubeconfig=world.kubeconfig, **waiting),
        "limited": ask(**limited, namespace=RULED, definition=job("ok", 1, pool="quota")),
        "limited_short": ask(**limited, namespace=RULED, definition=job("spend", 2, pool="quota")),
        "limited_elsewhere": ask(**limited, namespace=PLAIN, definition=job("ok", 1)),
        "refused": ask(**{**limited, "api_key": "no-such-token"}, namespace=RULED, definition=job("ok", 1)),
    }
    return play_tasks(directory, tasks, verbosity=3), user["client-key-data"], limited_token


def test_a_kubeconfig_given_as_dict_hides_its_key_and_no_word(connections):
    played, key, _token = connections
    assert only(played["dict"]) == only(played["path"])
    assert only(played["dict"])["namespace"] == "default"
    assert only(played["dict"])["gang"] == "v1"
    # A run this loud prints what the module was called with.
    assert '"current-context": "default"' in played.output
    assert '"client-key-data": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"' in played.output
    assert key not in str(played.results)
    assert key not in played.output


def test_an_account_that_may_not_list_nodes_is_told_about_its_namespace(connections):
    played, _key, token = connections
    verdict = only(played["limited"])
    assert (verdict["answer"], verdict["how"]) == ("fits", "unproven")
    assert verdict["not_modelled"] == ["mutating_webhooks", "nodes_not_visible"]
    assert [layer["layer"] for layer in verdict["layers"]] == ["namespace"]
    assert verdict["placement"] is None
    assert {"this account may not list nodes", "this account may not list pods"} <= set(
        played["limited"]["snapshot"]["notes"]
    )
    assert "may not list" in verdict_text.to_text(verdict)
    short = only(played["limited_short"])
    assert (short["answer"], short["reason"]) == ("waits", "namespace_quota")
    assert token not in str(played.results)
    assert token not in played.output


def test_rules_that_may_not_be_read_are_said(connections):
    played, _key, _token = connections
    notes = played["limited_elsewhere"]["snapshot"]["notes"]
    assert f"this account may not list resourcequotas {PLAIN}" in notes
    assert only(played["limited_elsewhere"])["how"] == "unproven"
    assert "namespace_rules_not_visible" in only(played["limited_elsewhere"])["not_modelled"]


def test_a_wrong_token_is_a_clear_failure(connections):
    result = connections[0]["refused"]
    assert result["failed"] is True
    assert "401" in result["msg"]
    assert "Traceback" not in str(result)


@pytest.fixture(scope="module")
def troubled(world, tmp_path_factory):
    """Questions asked while the API server, or the way to it, has trouble."""
    directory = tmp_path_factory.mktemp("troubled")
    pages = [
        rule("LimitRange", f"r{i}", PAGED, {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}}]})
        for i in range(MANY)
    ]
    world.create(*pages)
    with ApiProxy(world.kubeconfig, directory) as proxy:
        rules = {
            "busy": proxy.fail(status=429, path=f"/{PLAIN}/resourcequotas$", retry_after=1),
            "fault": proxy.fail(status=500, path=f"/{PLAIN}/limitranges$", times=2),
            "cut": proxy.cut(path="/priorityclasses$"),
            "cut_inside": proxy.cut(when="inside", path="/mutatingwebhookconfigurations$"),
            "gone": proxy.fail(status=410, path=f"/{PAGED}/limitranges$", first=2),
            "broken": proxy.fail(status=500, path=f"/{RULED}/resourcequotas$", times=None, message="the disk is gone"),
            "forbidden": proxy.fail(status=403, path="/api/v1/nodes$", first=3, message="no nodes for you"),
            "missing": proxy.fail(status=404, path="/api/v1/nodes$", first=5),
        }
        common = {"kubeconfig": str(proxy.kubeconfig), "podsets": [pool_podset("pair", 2, cpu="975m")]}
        asked = {
            "hurdles": ask(**common, namespace=PLAIN),
            "relisted": ask(**common, namespace=PAGED),
            "forbidden": ask(**common, namespace=PLAIN),
            "broken": ask(**common, namespace=RULED),
            "missing": ask(**common, namespace=PLAIN),
        }
        called = call_tasks(fit_info, asked)
    return called, proxy, rules


def test_passing_trouble_is_overcome(troubled):
    played, _proxy, rules = troubled
    assert [name for name in ("busy", "cut", "cut_inside") if rules[name].matched < 2] == []
    assert rules["fault"].matched >= 3
    assert only(played["hurdles"])["answer"] == "fits"
    assert played["hurdles"]["snapshot"]["notes"] == []


def test_a_list_that_expires_half_way_is_read_anew(troubled):
    played, proxy, _rules = troubled
    reads = [request for request in proxy.requests if request.path.endswith(f"/{PAGED}/limitranges")]
    assert [bool(request.query.get("continue")) for request in reads] == [False, True, False, True]
    assert [request.status for request in reads] == [200, 410, 200, 200]
    assert only(played["relisted"])["answer"] == "fits"


def test_forbidden_nodes_leave_the_namespace_to_judge(troubled):
    verdict = only(troubled[0]["forbidden"])
    assert (verdict["answer"], verdict["how"]) == ("fits", "unproven")
    assert verdict["not_modelled"] == ["nodes_not_visible"]


def test_lasting_trouble_is_a_clear_failure(troubled):
    played, _proxy, rules = troubled
    result = played["broken"]
    assert result["failed"] is True
    assert rules["broken"].matched == 5
    assert "Cannot list" in result["msg"]
    assert "resourcequotas" in result["msg"]
    assert "the disk is gone" in result["error"]["cause"]
    assert "Traceback" not in str(result)


def test_a_server_that_knows_no_nodes_is_no_server_without_nodes(troubled):
    result = troubled[0]["missing"]
    assert result["failed"] is True
    assert "nodes" in result["msg"]
    assert "404" in result["msg"]


def test_trouble_never_leads_to_a_write(troubled):
    assert troubled[1].requests
    assert_no_writes(troubled[1])


DOCUMENTED = {
    "fit_info": fit_info,
    "verdict_text": verdict_text,
    "podsets": podsets,
    "from_quantity": from_quantity,
    "to_quantity": to_quantity,
}


def examples(name):
    """The tasks in a plugin's documentation, each with the value its comment promises."""
    text = DOCUMENTED[name].EXAMPLES
    tasks = yaml.safe_load(text)
    promised = []
    for chunk in re.split(r"^- ", text, flags=re.MULTILINE)[1:]:
        _before, found, after = chunk.partition("# =>")
        promised.append(yaml.safe_load(re.sub(r"\n\s*#", " ", after)) if found else None)
    return list(zip(tasks, promised, strict=True))


@pytest.fixture(scope="module")
def shown(world, tmp_path_factory):
    """What the examples of all plugins give when they are run as they stand."""
    tasks = {f"{name}_{i}": task for name in DOCUMENTED for i, (task, _promise) in enumerate(examples(name))}
    directory = tmp_path_factory.mktemp("examples")
    defaults = {"group/muster.kube.kube": {"kubeconfig": world.kubeconfig}}
    return play_tasks(directory, tasks, module_defaults=defaults)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_do_what_the_documentation_says(shown, name):
    for i, (task, promise) in enumerate(examples(name)):
        result = shown[f"{name}_{i}"]
        assert not result.get("failed"), task["name"]
        if promise is not None:
            assert result["msg"] == promise, task["name"]
        if "muster.kube.fit_info" in task:
            assert {verdict["answer"] for verdict in result["verdicts"]} <= {"fits", "waits", "never"}
            assert result["verdicts"]


def test_the_words_shown_are_those_of_the_verdict(shown):
    verdict = only(shown["fit_info_0"])
    assert shown["fit_info_1"]["msg"] == [verdict_text.to_text(verdict)]
    assert verdict["gang"] == "training"
