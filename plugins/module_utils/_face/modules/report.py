# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of report."""

from __future__ import annotations

import os
import pathlib

from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.report.registry import SECTIONS
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import write_report
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import ReportOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def section_spec() -> Spec:
    """One section of any type; its entries are read by the flow, since they are results of other modules."""
    own = {name: dict(option) for section in SECTIONS.values() for name, option in section.options.items()}
    return {
        "type": {"type": "str", "required": True, "choices": list(SECTIONS)},
        "title": {"type": "str"},
        **own,
    }


def _options(params: Params, check_mode: bool) -> ReportOptions:
    """The options behind validated ones; a relative destination counts from the current directory."""
    if "\0" in params["dest"]:
        raise BadInput("use", "dest", "no file can have that name")
    return ReportOptions(
        dest=pathlib.Path(os.path.abspath(params["dest"])),
        title=params["title"],
        sections=tuple(params["sections"]),
        template=params["template"],
        section_templates=params["section_templates"],
        check_mode=check_mode,
    )


FACE = Face(
    name="report",
    spec={
        "dest": {"type": "path", "required": True},
        "title": {"type": "str", "default": "Report"},
        "sections": {"type": "list", "elements": "dict", "required": True, "options": section_spec()},
        "template": {"type": "str"},
        "section_templates": {"type": "dict"},
    },
    options=_options,
    work=lambda options, _call: write_report(options),
    libraries=check_libraries,
    files={"template": "extensions/report/page.html", "section_templates": "extensions/report/*.j2"},
)
