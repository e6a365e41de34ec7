# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of report as values."""

from __future__ import annotations

import os

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.modules.report import FACE


def validated(**options):
    """Options through Ansible's own validation."""
    return ArgumentSpecValidator(FACE.spec).validate(options)


def test_options_become_a_request(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = validated(dest="page.html", sections=[{"type": "gang_timeline"}]).validated_parameters
    request = FACE.options(params, True)
    assert str(request.dest) == os.path.join(tmp_path, "page.html")
    assert (request.title, request.template, request.section_templates) == ("Report", None, None)
    assert request.check_mode
    (section,) = request.sections
    assert section == {
        "type": "gang_timeline",
        "title": None,
        "gangs": [],
        "jobs": [],
        "pods": [],
        "trees": [],
        "as_of": None,
        "capacity": None,
        "inspections": [],
        "metrics": None,
        "allow_different_hardware": False,
    }


def test_metrics_are_compared_as_lower_is_better_unless_told():
    sections = [{"type": "inspections", "inspections": [{}], "metrics": [{"metric": "wall_seconds"}]}]
    (section,) = validated(dest="x", sections=sections).validated_parameters["sections"]
    (metric,) = section["metrics"]
    assert (metric["direction"], metric["threshold"], metric["unit"]) == ("lower", 5.0, None)
    wrong = [{"type": "inspections", "metrics": [{"metric": "x", "direction": "up"}]}]
    assert "value of direction must be one of: lower, higher" in validated(dest="x", sections=wrong).error_messages[0]


def test_wrong_options_are_named():
    assert "missing required arguments: dest, sections" in validated().error_messages[0]
    wrong = validated(dest="x", sections=[{"type": "pie"}]).error_messages
    assert "value of type must be one of: gang_timeline, inspections, quota_tree, allocation, got: pie" in wrong[0]
    assert "missing required arguments: type" in validated(dest="x", sections=[{}]).error_messages[0]
    unknown = validated(dest="x", sections=[{"type": "gang_timeline", "gang": []}]).error_messages
    assert "sections.gang" in unknown[0]
