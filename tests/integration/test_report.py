# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports in a real browser: nothing is requested, nothing complains, every transition is drawn."""

from __future__ import annotations

import http.server
import pathlib
import re
import shutil
import subprocess
import threading

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import write_report
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import ReportOptions
from ansible_collections.muster.kube.tests.support import inspection_cases
from ansible_collections.muster.kube.tests.support.live_cluster import wait_for_end
from ansible_collections.muster.kube.tests.support.report_cases import (
    SECTION_TEMPLATES,
    START,
    TEMPLATE,
    gang,
    job,
    many_gangs,
    scene,
    section,
    started,
    step,
    two_gangs,
)

LONGEST = 180
# What the same browser is called here and there.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class _Recorder(http.server.BaseHTTPRequestHandler):
    """A proxy that answers nothing and remembers what was asked."""

    def do_GET(self) -> None:
        """Note the address."""
        self.server.asked.append(self.path)
        self.send_error(404)

    do_CONNECT = do_GET  # noqa: N815

    def log_message(self, *_args: object) -> None:
        """Stay silent."""


@pytest.fixture
def proxy():
    """The only way out for the browser; asked lists what went there."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Recorder) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        wait_for_end(thread)


@pytest.fixture
def browse(tmp_path, proxy):
    """Opens a page in Chromium without a window; returns its elements afterwards and what it complained of."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("chromium is not installed")

    def load(page: pathlib.Path) -> tuple[str, list[str]]:
        arguments = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=5000", "--dump-dom"),
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--proxy-server=127.0.0.1:{proxy.server_address[1]}",
            "--proxy-bypass-list=<-loopback>",
        ]
        ended = subprocess.run(
            [program, *arguments, page.as_uri()],
            capture_output=True,
            text=True,
            check=True,
            timeout=LONGEST,
            stdin=subprocess.DEVNULL,
        )
        return ended.stdout, [line for line in ended.stderr.splitlines() if "CONSOLE" in line]

    return load


@pytest.fixture
def report(tmp_path):
    """Writes a report of one section."""

    def write(gangs, **more):
        page = tmp_path / "page.html"
        sections = (section(gangs, **more),)
        write_report(
            ReportOptions(page, "Page", sections, TEMPLATE.read_text(encoding="utf-8"), SECTION_TEMPLATES, False)
        )
        return page

    return write


def bars(dom):
    """How many bars a page has."""
    return len(re.findall(r'class="bar phase-[a-z]+(?: open)?"', dom))


def of_pages(asked):
    """Requests to the hosts that the test's pages name; the browser has some of its own."""
    return [address for address in asked if "example" in address]


def test_every_transition_is_drawn_and_nothing_complains(report, browse):
    dom, complaints = browse(report(many_gangs(200, 20)))
    assert complaints == []
    assert bars(dom) == 4000
    # The script ran: it has taken the bars' titles over.
    assert "<title>gang" not in dom
    assert not re.search(r'<label class="filter" hidden', dom)


def test_hostile_data_run_nothing_and_request_nothing(report, browse, proxy):
    attack = (
        "</title></script><script>document.title='owned'</script>"
        "<img src='http://tracker.example/x.png' onerror=\"document.title='owned'\">"
    )
    hostile = gang(attack, step("queued", 0, attack, attack), queue=attack, namespace=attack, verdict_text=attack)
    dom, complaints = browse(report([hostile], title=attack))
    assert complaints == []
    assert "<title>Page</title>" in dom
    assert bars(dom) == 1
    assert of_pages(proxy.asked) == []


def test_what_is_smuggled_past_the_escaping_is_stopped_by_the_policy(report, browse, proxy):
    page = report(two_gangs())
    smuggled = "<script>document.title='owned'</script><img src='http://tracker.example/x.png'>"
    page.write_text(page.read_text(encoding="utf-8").replace("</main>", smuggled + "</main>"), encoding="utf-8")
    dom, complaints = browse(page)
    assert "<title>Page</title>" in dom
    assert of_pages(proxy.asked) == []
    assert len(complaints) == 2
    assert all("Content Security Policy" in line for line in complaints)


def test_inspections_are_drawn_and_say_what_a_point_stands_for(tmp_path, browse, proxy):
    attack = "</title></script><script>document.title='owned'</script><img src='http://tracker.example/x.png'>"
    stacks = inspection_cases.two_stacks()
    page = tmp_path / "page.html"
    sections = (inspection_cases.section([*stacks, inspection_cases.inspection(attack, [10.0])]),)
    write_report(ReportOptions(page, "Page", sections, TEMPLATE.read_text(encoding="utf-8"), SECTION_TEMPLATES, False))
    dom, complaints = browse(page)
    assert complaints == []
    assert "<title>Page</title>" in dom
    assert len(re.findall('class="bar point', dom)) == 8 + 8 + 1
    assert of_pages(proxy.asked) == []


def test_an_allocation_is_drawn_and_runs_nothing_of_others(tmp_path, browse, proxy):
    attack = "</title></script><script>document.title='owned'</script><img src='http://tracker.example/x.png'>"
    data, page = scene(), tmp_path / "page.html"
    data["jobs"] = [*data["jobs"], job(attack, *started(50, 2), queue=attack)]
    write_report(ReportOptions(page, "Page", (data,), TEMPLATE.read_text(encoding="utf-8"), SECTION_TEMPLATES, False))
    dom, complaints = browse(page)
    assert complaints == []
    assert "<title>Page</title>" in dom
    assert len(re.findall('class="row job"', dom)) == 5
    assert len(re.findall('class="bar mark"', dom)) == 3 + 6 + 1
    assert of_pages(proxy.asked) == []


def test_the_recorder_would_have_seen_a_request(tmp_path, browse, proxy):
    page = tmp_path / "control.html"
    page.write_text("<!doctype html><title>x</title><img src='http://tracker.example/x.png'>")
    browse(page)
    assert of_pages(proxy.asked) == ["http://tracker.example/x.png"]


def test_the_filter_hides_rows_in_chart_and_tables(report, browse):
    page = report(two_gangs(), as_of=START + 60)
    script = (
        "<script>const field = document.querySelector('.filter input'); field.value = 'SECOND running';"
        "field.dispatchEvent(new Event('input'));</script></body>"
    )
    text = page.read_text(encoding="utf-8").replace("</body>", script)
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", text), encoding="utf-8")
    dom, complaints = browse(page)
    assert complaints == []
    hidden = re.findall(r'<(div|tr)[^>]*data-find="default (\w+)[^>]*hidden=""', dom)
    assert hidden == [("div", "first"), *[("tr", "first")] * 6]
    assert '<span aria-live="polite">1 of 2</span>' in dom


def test_pointing_at_a_bar_shows_its_text(report, browse):
    page = report(two_gangs())
    script = (
        "<script>document.querySelector('.bar.phase-running').dispatchEvent("
        "new PointerEvent('pointermove', {bubbles: true, clientX: 50, clientY: 50}));</script></body>"
    )
    text = page.read_text(encoding="utf-8").replace("</body>", script)
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", text), encoding="utf-8")
    dom, complaints = browse(page)
    assert complaints == []
    assert re.search(r'<div id="tip"[^>]*>default/first: running\n16 Nov 2026, 10:00:04', dom)
