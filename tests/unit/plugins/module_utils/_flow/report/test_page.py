# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page: markers, policy, and that no text of the data ever becomes markup."""

from __future__ import annotations

import base64
import hashlib
import re

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.page import (
    build_page,
    sections_of_page,
    title_of_page,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import read_section
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support import inspection_cases
from ansible_collections.muster.kube.tests.support.report_cases import (
    TEMPLATE,
    TEMPLATES,
    draw_parsed,
    gang,
    job,
    many_gangs,
    noted,
    parse_page,
    resized,
    scene,
    section,
    started,
    step,
    two_gangs,
    waiting_verdict,
)

TEXT = TEMPLATE.read_text(encoding="utf-8")


def page(*sections, title="Title"):
    """The page these sections make."""
    read = tuple(read_section(data, f"sections[{index}]") for index, data in enumerate(sections))
    return build_page(TEXT, TEMPLATES, title, read)


def test_the_page_begins_with_its_doctype_and_has_one_title():
    tree = parse_page(page(section(two_gangs())))
    assert page(section([])).startswith("<!doctype html>")
    assert tree.find("h1")[0].text == "Title"
    assert [item.text for item in tree.find("head")[0].find("title")] == ["Title"]
    assert tree.find("html")[0].attributes["lang"] == "en"


def test_sections_are_in_order_and_named():
    tree = parse_page(page(section(two_gangs(), title="One"), section([], title="Two")))
    assert [item.text for item in tree.find("h2")] == ["One", "Two"]
    names = {item.attributes["id"] for item in tree.find() if item.attributes.get("id")}
    assert all(item.attributes["aria-labelledby"] in names for item in tree.find("section"))


def test_no_sections():
    assert "Nothing to report." in parse_page(page()).find("main")[0].text


def test_the_policy_allows_the_templates_own_blocks_and_nothing_else():
    tree = parse_page(page(section(two_gangs())))
    (policy,) = [item.attributes["content"] for item in tree.find("meta") if "http-equiv" in item.attributes]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert {name: rules[name] for name in ("default-src", "base-uri", "form-action")} == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    for name in ("style", "script"):
        (block,) = tree.find(name)
        digest = base64.b64encode(hashlib.sha256(block.text.encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"


def test_a_template_without_script_allows_none():
    bare = "<!doctype html><title>%%title%%</title><meta content='%%policy%%'>%%sections%%"
    assert "script-src &#x27;none&#x27;" in build_page(bare, TEMPLATES, "t", ())


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("<!doctype html>%%title%%%%policy%%", "the marker %%sections%% is missing"),
        ("<!doctype html>%%title%%%%policy%%%%sections%%%%date%%", "the marker %%date%% is unknown"),
        ("<html>%%title%%%%policy%%%%sections%%", "it has no line <!doctype html>"),
    ],
)
def test_wrong_templates_are_refused(template, cause):
    with pytest.raises(BadInput, match=re.escape(cause)):
        build_page(template, TEMPLATES, "t", ())


def test_nothing_is_loaded_from_anywhere():
    tree = parse_page(page(section(two_gangs())))
    links = [value for item in tree.find() for name, value in item.attributes.items() if name in ("src", "href")]
    assert links
    assert all(re.fullmatch("#mark-[a-z]+", link or "") for link in links)
    marks = {f"#{item.attributes['id']}" for item in tree.find("symbol")}
    assert set(links) <= marks
    assert "url(" not in TEXT
    assert "@import" not in TEXT


ATTACKS = (
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><svg onload=alert(1)>",
    "<!--",
    "]]>",
    "%%sections%%",
    "%%policy%%",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "{{ 7 * 7 }}",
    "\ud800\x00\u202e",
    "</section></main></body>",
)
TEXTS = st.text(max_size=30) | st.sampled_from(ATTACKS)
UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@st.composite
def hostile_sections(draw):
    """A section with arbitrary text in every field that holds text."""

    def some():
        return draw(TEXTS)

    verdict = waiting_verdict(some(), **{some(): "3", "cpu": some()})
    verdict["detail"] = some()
    verdict["layers"][0]["quotas"] = [{"quota": some(), "resource": some(), "short": "1"}]
    entry = gang(
        f"n{some()}",
        step("queued", 0, some(), some()),
        step("running", 5, some(), some()),
        step("failed", 60, some(), some()),
        namespace=f"s{some()}",
        queue=some(),
        verdict=verdict,
        verdict_text=some(),
        pods=[{"phase": some()}],
        spec={"podsets": [{"count": 2, "requests": {f"gpu/{some()}": "1"}}]},
    )
    entry["timeline"][0]["waited_for"] = verdict
    other = {"gang": f"s/{some()}x", "at": 1_794_823_200, "phase": "queued", "reason": some(), "message": some()}
    decision = {**other, "verdict": verdict, "verdict_text": some(), "queue": some()}
    return section([entry, decision], title=some(), capacity={f"gpu/{some()}": "3", some(): "1"})


def shape(tree):
    """Every kind of element with the names of its attributes."""
    return {(item.tag, tuple(sorted(item.attributes))) for item in tree.find()}


PLAIN = gang("g", step("queued", 0, "R", "m"), step("running", 5), step("failed", 60), step("queued", 61, "R"))
ASKING = {"spec": {"podsets": [{"name": "w", "count": 2, "requests": {"cpu": "1", "example.com/gpu": "1"}}]}}
NEVER = {**waiting_verdict(cpu="9"), "answer": "never"}
RICH = section(
    [
        {**PLAIN, **ASKING, "pods": {"running": 1}, "verdict": waiting_verdict(cpu="1"), "verdict_text": "x"},
        gang("quick", step("queued", 0), step("dispatched", 3), step("complete", 9), namespace="other", **ASKING),
        gang("huge", step("queued", 7, "Submitted", "m"), verdict=NEVER, verdict_text="never fits"),
        {"gang": "other/told", "at": step("queued", 8)["at"], "phase": "queued", "reason": "R", "message": "m"},
    ],
    capacity={"example.com/gpu": "4"},
    as_of="2026-11-16T10:02:00Z",
)
KNOWN = shape(parse_page(page(RICH, section(many_gangs(2, 20)), section(two_gangs()))))


@hypothesis.given(hostile_sections(), TEXTS)
def test_no_text_of_the_data_becomes_markup(data, title):
    built = page(data, title=title)
    tree = parse_page(built)
    assert shape(tree) <= KNOWN
    assert len(tree.find(kind="bar")) == 4
    blocks = [item.text for name in ("style", "script") for item in tree.find(name)]
    assert all(block in TEXT for block in blocks)
    assert len(blocks) == 2
    assert all((item.attributes.get("href") or "#mark-").startswith("#mark-") for item in tree.find())
    assert sections_of_page(built) is not None
    assert len(sections_of_page(built) or []) == 1
    assert not UNFIT.search(built)


@st.composite
def hostile_inspections(draw):
    """A comparison with arbitrary text in every field that holds text."""

    def some():
        return draw(TEXTS)

    item = inspection_cases.item(0, 1.5, image=some(), os_release={"pretty_name": some()})
    item["hwinfo"] = inspection_cases.hwinfo(some(), brand=some(), vendor=some(), model=some())
    item["stdout"] = some()
    bad = {**inspection_cases.failed_item(1, f"r{some()}", some()), "stderr": some()}
    specification = {"script": some(), "run": {"args": [some()], "env": {some(): some()}, "requests": {some(): "1"}}}
    build = {"packages": {some(): [], "pip": [{"name": some(), "version": some()}]}}
    one = inspection_cases.inspection(f"n{some()}", [1.0, 2.0], image=some(), image_digest=some())
    one |= {"status": {"build": {"packages": {"pip": [{"name": some(), "version": some()}]}}}}
    one |= {"specification": {**specification, "script": some()}}
    other = {**one, "name": some(), "inspection_id": some(), "runs": [item, bad], "status": {"build": build}}
    other |= {"specification": specification}
    metrics = [{"metric": "wall_seconds", "title": some(), "unit": some()}, {"metric": f"m{some()}"}]
    return inspection_cases.section([one, other], title=some(), metrics=metrics)


def asking(name, script, **run):
    """An inspection that tells what was asked of it, one of whose runs failed."""
    bad = {**inspection_cases.failed_item(1), "stderr": "Traceback\nNo\n"}
    run = {"args": ["-v"], "workdir": "/w", "files": [{"path": "/f", "sha256": script}], **run}
    packages = {"packages": inspection_cases.packages(numpy=script)}
    return inspection_cases.inspection(
        name, [1.0], bad, specification={"script": script, "run": run}, status={"build": packages}
    )


RICH_INSPECTIONS = inspection_cases.section(
    [
        asking("a", "one\n", env={"N": "1"}, requests={"cpu": "1"}),
        asking("b", "two\n", environment=[{"name": "M", "value": "2"}], interpreter="sh"),
        inspection_cases.inspection("gone", [], reason="build_failed", message="no such package"),
    ],
    title="Inspections",
    metrics=[{"metric": "wall_seconds", "title": "Time", "unit": "s"}, {"metric": "stdout.rate"}],
)


def _known_inspections():
    """Every kind of element that a comparison may have."""
    stacks = inspection_cases.two_stacks()
    other = inspection_cases.inspection("other", [1.0], inspection_cases.failed_item(1))
    other["runs"][0]["hwinfo"] = inspection_cases.hwinfo(model=99)
    gone = inspection_cases.inspection("gone", [], reason="build_failed")
    many = [inspection_cases.failed_item(index) for index in range(20)]
    metrics = [{"metric": "wall_seconds"}, {"metric": "nonsuch"}]
    return shape(
        parse_page(
            page(
                inspection_cases.section([*stacks, other, gone], metrics=metrics),
                inspection_cases.section(stacks, metrics=metrics),
                inspection_cases.section([other], metrics=metrics),
                inspection_cases.section([inspection_cases.inspection("bad", [], *many)]),
                RICH_INSPECTIONS,
            )
        )
    )


KNOWN_INSPECTIONS = _known_inspections()


@hypothesis.given(hostile_inspections(), TEXTS)
def test_no_text_of_inspections_becomes_markup(data, title):
    built = page(data, title=title)
    tree = parse_page(built)
    assert shape(tree) <= KNOWN_INSPECTIONS
    assert len(tree.find("circle", "point")) == 3
    assert len(sections_of_page(built) or []) == 1
    assert not UNFIT.search(built)


def places_of_texts(data, path=()):
    """Where texts and names of fields stand in the data."""
    if isinstance(data, str):
        yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if isinstance(key, str):
            yield (*path, (key,))
        yield from places_of_texts(value, (*path, key))


def with_text(data, path, text):
    """The data with another text at one place; a place that ends in a tuple is the name of a field."""
    if not path:
        return text
    key, *rest = path
    if isinstance(key, tuple):
        return {text if name == key[0] else name: value for name, value in data.items()}
    if isinstance(data, dict):
        return {**data, key: with_text(data[key], rest, text)}
    return [with_text(value, rest, text) if index == key else value for index, value in enumerate(data)]


def rich_allocation():
    """Few jobs that are in every state that a page can show."""
    data = scene()
    timeline, sizes = started(1, 4)
    lost = [noted(9, 4, was=4, to=2, why="w", lost_seconds=9.0), noted(12, 4, running=True), noted(20, 0)]
    plan = {"from": 4, "to": 2, "why": "w", "since": "s", "step": "planned"}
    grown = {**data["jobs"][1], "timeline": timeline, "sizes": [*sizes, *resized(42, 4, 4, "r")[1][:1]]}
    more = [
        job("plan", timeline[1:], sizes[1:], queue="q", resize=plan),
        job("lost", [step("dispatching", 1), step("failed", 20)], [*sizes, *lost], namespace="n"),
        job("old", [step("dispatching", 15)], [], queue="q"),
    ]
    return {**data, "jobs": [grown, *more]}


RICH_ALLOCATION = rich_allocation()
ALLOCATIONS = (
    scene(),
    RICH_ALLOCATION,
    {**RICH_ALLOCATION, "capacity": None},
    {**RICH_ALLOCATION, "jobs": [job("x", [], [])]},
)
KNOWN_ALLOCATION = shape(parse_page(page(*ALLOCATIONS)))


@pytest.mark.parametrize(
    ("data", "known", "least"),
    [(RICH, KNOWN, 30), (RICH_INSPECTIONS, KNOWN_INSPECTIONS, 30), (RICH_ALLOCATION, KNOWN_ALLOCATION, 15)],
    ids=["gangs", "runs", "jobs"],
)
def test_an_attack_in_any_single_field_stays_text(data, known, least):
    attack = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}%%title%%\x00\u202e"
    shown = 0
    for path in places_of_texts(data):
        if path[0] in ("type", ("type",)):
            continue
        try:
            tree = draw_parsed(with_text(data, path, attack))
        except BadInput:
            continue
        assert shape(tree) <= known, path
        shown += "alert(1)" in tree.text or any("alert(1)" in str(item.attributes) for item in tree.find())
    assert shown > least


@pytest.mark.parametrize("attack", [text for text in ATTACKS if "\x00" not in text])
def test_attacks_are_shown_as_they_were_written(attack):
    tree = parse_page(page(section([gang(attack, step("queued", 0))], title=attack), title=attack))
    assert (tree.find("h1")[0].text, tree.find("h2")[0].text) == (attack, attack)
    assert tree.find("table", "waits")[0].find("tbody")[0].find("th")[0].text == attack


def test_equal_data_make_equal_pages_and_other_data_other_digests():
    assert page(section(two_gangs())) == page(section(two_gangs()))
    before = sections_of_page(page(section(two_gangs(), title="a"), section([], title='b <&> "')))
    after = sections_of_page(page(section(two_gangs()[:1], title="a"), section([], title='b <&> "')))
    assert before is not None
    assert after is not None
    assert [(kind, title) for kind, title, _digest in before] == [("gang_timeline", "a"), ("gang_timeline", 'b <&> "')]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_other_files_are_not_taken_for_reports():
    assert sections_of_page("<html><title>x</title></html>") is None
    assert title_of_page("<title>a &amp; b</title>") == "a & b"
    assert title_of_page("") == ""


def test_two_hundred_gangs_of_twenty_transitions():
    built = page(section(many_gangs(200, 20)))
    assert len(re.findall('class="bar phase-', built)) == 4000
    assert len(built) < 4_000_000
