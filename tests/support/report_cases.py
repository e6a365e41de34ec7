# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs as gang_info returns them, and reports taken apart again with Python's own HTML parser."""

from __future__ import annotations

import dataclasses
import html.parser
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Templates
from ansible_collections.muster.kube.plugins.module_utils._flow.report.page import draw_section
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import read_section
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text, time_text

_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "extensions" / "report"
TEMPLATE = _FOLDER / "page.html"
SECTION_TEMPLATES = {path.name: path.read_text(encoding="utf-8") for path in _FOLDER.glob("*.j2")}
TEMPLATES = Templates(SECTION_TEMPLATES)
# 2026-11-16, 10:00:00 UTC
START = 1_794_823_200
Entry = dict[str, t.Any]
VOID = ("meta", "input")
GPU = "nvidia.com/gpu"


def step(phase: str, after: float, reason: str = "", message: str = "") -> Entry:
    """One entry of a timeline, so many seconds after the start."""
    return {"phase": phase, "at": time_text(START + after), "reason": reason, "message": message}


def waiting_verdict(reason: str = "insufficient", **short: str) -> Entry:
    """A verdict of a gang that waits for these amounts."""
    totals = {name: {"requested": amount, "free": "0", "short": amount} for name, amount in short.items()}
    return {
        "answer": "waits",
        "reason": reason,
        "detail": None,
        "layers": [
            {"layer": "namespace", "passed": True, "quotas": [], "problems": []},
            {"layer": "slots", "passed": False, "totals": totals, "podsets": []},
        ],
    }


def gang(name: str, *timeline: Entry, **more: t.Any) -> Entry:
    """One gang; its phase is that of its last transition."""
    phase = timeline[-1]["phase"] if timeline else "queued"
    base = {"name": name, "namespace": "default", "queue": "research", "phase": phase, "attempt": 1}
    return {**base, "timeline": list(timeline), "verdict": None, "verdict_text": "", "pods": [], **more}


def two_gangs() -> list[Entry]:
    """The demo: the second waits until the first is over."""
    return [
        gang(
            "first",
            step("queued", 0, "Submitted"),
            step("dispatching", 1, "Fits", "fits now"),
            step("dispatched", 2, "Started"),
            step("running", 4, "PodsBound"),
            step("complete", 31, "Completed"),
            pods=[{"name": "a", "phase": "Succeeded"}, {"name": "b", "phase": "Succeeded"}],
        ),
        gang(
            "second",
            step("queued", 6, "Submitted"),
            step("dispatching", 32, "Fits"),
            step("dispatched", 33, "Started"),
            step("running", 35, "PodsBound"),
            verdict=waiting_verdict(cpu="1050m", memory="2924544Ki"),
            verdict_text="second: waits: not enough free resources",
            pods={"running": 2},
        ),
    ]


def many_gangs(count: int, transitions: int) -> list[Entry]:
    """As many gangs as one likes, each going round through the phases."""
    phases = ("queued", "dispatching", "dispatched", "running", "undoing")
    return [
        gang(
            f"gang-{number:03}",
            *(step(phases[index % 5], 60 * number + 10 * index, "Round", "m" * 60) for index in range(transitions)),
        )
        for number in range(count)
    ]


def section(gangs: list[Entry], **more: t.Any) -> Entry:
    """One section as the module hands it on."""
    return {"type": "gang_timeline", "title": "Gangs", "gangs": gangs, "as_of": None, **more}


@dataclasses.dataclass
class Element:
    """One element of a page."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Element | str] = dataclasses.field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        """Its classes."""
        return (self.attributes.get("class") or "").split()

    @property
    def text(self) -> str:
        """All text inside."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def walk(self) -> t.Iterator[Element]:
        """Itself and everything inside."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def find(self, tag: str | None = None, kind: str | None = None) -> list[Element]:
        """Elements inside by tag and class."""
        return [
            found
            for found in self.walk()
            if found is not self and tag in (None, found.tag) and (kind is None or kind in found.classes)
        ]


class _Reader(html.parser.HTMLParser):
    """Builds the tree and insists on elements being closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {attrs}"
        found = Element(tag, dict(attrs))
        self.open[-1].children.append(found)
        if tag not in VOID:
            self.open.append(found)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be this one."""
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.open[-1].children.append(data)


def draw_parsed(data: Entry) -> Element:
    """What a section shows, with the collection's own templates."""
    return parse_page(draw_section(TEMPLATES, 1, *read_section(data, "sections[0]"))).find("section")[0]


def parse_page(text: str) -> Element:
    """A page, or a part of one, as a tree."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].tag}> is never closed"
    return reader.open[0]


def noted(after: float, size: int, *, running: bool = False, **resize: t.Any) -> Entry:
    """One size that a record noted, so many seconds after the start; was_from is where a resize began."""
    if resize:
        resize = {"from": resize.pop("was"), "to": resize.pop("to"), "method": "recreate", "why": "", **resize}
        resize.setdefault("lost_seconds", 0.0)
    at = micro_time_text(round((START + after) * 1_000_000))
    return {"at": at, "size": size, "gpus": size, "running": running, "resize": resize or None}


def job(name: str, timeline: t.Sequence[Entry], sizes: t.Sequence[Entry], **more: t.Any) -> Entry:
    """One elastic job of range 2 to 4, as elastic_job_info tells it; its phase is that of its last transition."""
    phase = timeline[-1]["phase"] if timeline else "queued"
    base = {"name": name, "namespace": "default", "uid": f"uid-{name}", "queue": None, "phase": phase, "attempt": 1}
    held = sizes[-1]["size"] if sizes else 0
    range_ = {"sizes": [2, 3, 4], "resource": GPU, "podset": f"{name}/master", "axis": "per_pod"}
    told = {"allotment": held or None, "resize": None, "restarts": 0, "lost_seconds": None, "progress": None}
    return {**base, **told, "range": range_, "timeline": list(timeline), "sizes": list(sizes), **more}


def pod_of_others(name: str, gpus: int, after: float, **more: t.Any) -> Entry:
    """A pod with GPUs on a node, as the API returns it."""
    return {
        "metadata": {"name": name, "namespace": "other", "labels": {}, "creationTimestamp": time_text(START + after)},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "x", "resources": {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}}],
        },
        "status": {"phase": "Running"},
        **more,
    }


def started(after: float, size: int) -> tuple[list[Entry], list[Entry]]:
    """Transitions and sizes of a job that was queued, and started so much later."""
    return (
        [step("queued", 0, "Submitted"), step("dispatching", after), step("running", after + 2)],
        [noted(after, size), noted(after + 2, size, running=True)],
    )


def resized(after: float, size: int, to: int, why: str) -> tuple[list[Entry], list[Entry]]:
    """Transitions and sizes of a resize by other objects; it takes six seconds."""
    phases = (("resizing", 0), ("queued", 3), ("dispatching", 4), ("running", 6))
    return (
        [step(phase, after + later) for phase, later in phases],
        [
            noted(after, size, was=size, to=to, why=why),
            noted(after + 3, 0),
            noted(after + 4, to),
            noted(after + 6, to, running=True),
        ],
    )


def scene() -> Entry:
    """Three jobs share ten GPUs; one ends and the others grow; a pod and a newcomer come, and one shrinks."""
    grown, shrunk = "there is room for it", "another gang waits for its GPUs"
    a, b, c = started(1, 4), started(1, 3), started(1, 3)
    parts = {
        "tune-a": ([*a[0], step("complete", 40)], [*a[1], noted(40, 0)]),
        "tune-b": tuple(
            x + y + z for x, y, z in zip(b, resized(42, 3, 4, grown), resized(80, 4, 2, shrunk), strict=True)
        ),
        "tune-c": tuple(x + y for x, y in zip(c, resized(43, 3, 4, grown), strict=True)),
        "newcomer": (
            [step("queued", 78, "Submitted"), step("dispatching", 85), step("running", 87)],
            [noted(85, 2), noted(87, 2, running=True)],
        ),
    }
    told = {name: job(name, *found) for name, found in parts.items()}
    told["newcomer"]["range"] = {**told["newcomer"]["range"], "sizes": [2]}
    for name, steps in (("tune-b", 340), ("tune-c", 420)):
        saved = [{"step": 100 * at, "time": time_text(START + 25 * at)} for at in (1, 2, 3)]
        speeds = {"3": 3.1, "4": 4.05}
        share = {"step": steps, "total": 900, "share": steps / 900, "speeds": speeds, "unsaved": 40}
        told[name]["progress"] = {**share, "checkpoint": saved[-1], "checkpoints": saved}
        told[name]["restarts"] = 1 + (name == "tune-b")
    return {
        "type": "allocation",
        "title": "Ten GPUs",
        "jobs": list(told.values()),
        "capacity": {GPU: "10", "cpu": "16"},
        "as_of": time_text(START + 110),
        "pods": [pod_of_others("notebook", 2, 62)],
    }
