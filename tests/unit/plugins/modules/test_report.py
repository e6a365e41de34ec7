# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of report: options in, one call, one answer."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._face.modules import report as face
from ansible_collections.muster.kube.plugins.module_utils._flow.report import markup
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.modules import report
from ansible_collections.muster.kube.tests.support.module_call import call_module
from ansible_collections.muster.kube.tests.support.report_cases import SECTION_TEMPLATES, TEMPLATE, two_gangs

SECTIONS = [{"type": "gang_timeline", "gangs": two_gangs()}]
TEMPLATES = {"template": TEMPLATE.read_text(), "section_templates": SECTION_TEMPLATES}


def test_options_reach_the_flow_and_its_result_is_returned(monkeypatch):
    seen = []

    def work(request):
        seen.append(request)
        return {"changed": True}

    monkeypatch.setattr(face, "write_report", work)
    options = {"dest": "/tmp/x.html", "title": "T", "sections": SECTIONS, "template": "t", "_ansible_check_mode": True}
    options["section_templates"] = {"a": "b"}
    assert call_module(monkeypatch, report, options).result == {"changed": True, "ran": "module"}
    (request,) = seen
    assert (str(request.dest), request.title, request.template, request.check_mode) == ("/tmp/x.html", "T", "t", True)
    assert request.sections[0]["gangs"] == two_gangs()
    assert request.section_templates == {"a": "b"}


def test_a_failure_names_action_object_and_cause(monkeypatch):
    def work(_request):
        raise MusterError("write", "/x", "no room")

    monkeypatch.setattr(face, "write_report", work)
    answer = call_module(monkeypatch, report, {"dest": "/x", "sections": []}).result
    assert answer["failed"]
    assert answer["error"] == {"action": "write", "object": "/x", "cause": "no room"}


def test_a_bad_type_never_reaches_the_flow(monkeypatch):
    monkeypatch.setattr(face, "write_report", lambda _request: pytest.fail("it ran"))
    answer = call_module(monkeypatch, report, {"dest": "/x", "sections": [{"type": "pie"}]}).result
    assert "value of type must be one of: gang_timeline, inspections, quota_tree, allocation, got: pie" in answer["msg"]


def test_a_host_without_jinja2_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(markup, "JINJA_IMPORT_ERROR", "Traceback: no module named jinja2")
    answer = call_module(monkeypatch, report, {"dest": str(tmp_path / "x"), "sections": SECTIONS, **TEMPLATES}).result
    assert "Failed to import the required Python library (Jinja2)" in answer["msg"]
    assert answer["exception"] == "Traceback: no module named jinja2"


def test_the_example_of_gangs_is_a_report(monkeypatch, tmp_path):
    task, *_others = yaml.safe_load(report.EXAMPLES)
    options = {**task["muster.kube.report"], "dest": str(tmp_path / "page.html"), **TEMPLATES}
    answer = call_module(monkeypatch, report, options).result
    assert answer["sections"] == [{"type": "gang_timeline", "title": "Shared node", "gangs": 2, "transitions": 7}]
    assert (tmp_path / "page.html").is_file()
