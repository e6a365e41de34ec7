# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of report, and their way into typed values."""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.report import GangTimeline, ReportRequest
from ansible_collections.muster.kube.plugins.module_utils._model.report_inspections import Inspections

Spec = dict[str, dict[str, t.Any]]
Params = t.Mapping[str, t.Any]


def metric_argument_spec() -> Spec:
    """One metric of a section that compares inspections."""
    return {
        "metric": {"type": "str", "required": True},
        "title": {"type": "str"},
        "unit": {"type": "str"},
        "direction": {"type": "str", "choices": ["lower", "higher"], "default": "lower"},
        "threshold": {"type": "float", "default": 5.0},
    }


def section_argument_spec() -> Spec:
    """One section; its entries are read by the flow, since they are results of other modules."""
    return {
        "type": {"type": "str", "required": True, "choices": [GangTimeline.type, Inspections.type]},
        "title": {"type": "str"},
        "gangs": {"type": "list", "elements": "dict", "default": []},
        "as_of": {"type": "str"},
        "capacity": {"type": "dict"},
        "inspections": {"type": "list", "elements": "dict", "default": []},
        "metrics": {"type": "list", "elements": "dict", "options": metric_argument_spec()},
        "allow_different_hardware": {"type": "bool", "default": False},
    }


def report_argument_spec() -> Spec:
    """All options of report."""
    return {
        "dest": {"type": "path", "required": True},
        "title": {"type": "str", "default": "Report"},
        "sections": {"type": "list", "elements": "dict", "required": True, "options": section_argument_spec()},
        "template": {"type": "str"},
    }


def report_request(params: Params, check_mode: bool) -> ReportRequest:
    """The request behind validated options; a relative destination counts from the current directory."""
    if "\0" in params["dest"]:
        raise BadInput("use", "dest", "no file can have that name")
    return ReportRequest(
        dest=pathlib.Path(os.path.abspath(params["dest"])),
        title=params["title"],
        sections=tuple(params["sections"]),
        template=params["template"],
        check_mode=check_mode,
    )
