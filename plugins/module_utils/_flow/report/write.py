# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing a report: read the sections, build the page, replace the file only if something changed."""

from __future__ import annotations

import os
import pathlib
import stat
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Templates
from ansible_collections.muster.kube.plugins.module_utils._flow.report.page import (
    build_page,
    sections_of_page,
    title_of_page,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.registry import SECTIONS
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Titled
from ansible_collections.muster.kube.plugins.module_utils._host.files import replace_file
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import ReportOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

_MODE = 0o644


def write_report(request: ReportOptions) -> dict[str, t.Any]:
    """Bring the file to what the data say; the result has the keys of the module."""
    for name, given in (("template", request.template), ("section_templates", request.section_templates)):
        if not given:
            raise BadInput("use", name, "it is empty; the action plugin of muster.kube.report reads the usual one")
    sections = [read_section(data, f"sections[{index}]") for index, data in enumerate(request.sections)]
    page = build_page(request.template or "", Templates(request.section_templates or {}), request.title, sections)
    target = pathlib.Path(os.path.realpath(request.dest))
    wanted = page.encode()
    present = _read(target)
    changed = present != wanted
    if changed and not request.check_mode:
        _replace(target, wanted)
    old = "" if present is None else present.decode(errors="replace")
    before = sections_of_page(old)
    after = sections_of_page(page)
    return {
        "changed": changed,
        "dest": str(request.dest),
        "size": len(wanted),
        "sections": [_summary(*section) for section in sections],
        "changed_sections": _changed_titles(before or [], after or []),
        "diff": {
            "before_header": str(request.dest),
            "after_header": str(request.dest),
            "before": "" if present is None else _listing(title_of_page(old), before),
            "after": _listing(request.title, after),
        },
    }


def read_section(data: t.Mapping[str, t.Any], where: str) -> tuple[str, Titled]:
    """A section with its type; data of another type than its own are refused, since the page would not show them."""
    kind = data["type"]
    section = SECTIONS[kind]
    for other in SECTIONS.values():
        if data.get(other.shows) and other.shows not in section.options:
            raise BadInput("read", f"{where}: {other.shows}", f"a section of type {kind} shows {section.shows}")
    return kind, section.read(data, where)


def _summary(kind: str, section: Titled) -> dict[str, t.Any]:
    return {"type": kind, "title": section.title, **SECTIONS[kind].summary(section)}


def _changed_titles(before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]) -> list[str]:
    """Titles of sections that came, went or show something else."""
    different = [entry for entry in after if entry not in before] + [entry for entry in before if entry not in after]
    return list(dict.fromkeys(title for _kind, title, _digest in different))


def _listing(title: str, sections: list[tuple[str, str, str]] | None) -> str:
    """One line for each section; the page itself would be unreadable in a diff."""
    if sections is None:
        return "another file\n"
    return f"{title}\n" + "".join(f"- {name} ({kind}, {digest})\n" for kind, name, digest in sections)


def _read(target: pathlib.Path) -> bytes | None:
    """What the file holds now; None when there is none."""
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _file_error("read", target, error) from error


def _replace(target: pathlib.Path, content: bytes) -> None:
    """Put a new file in place of the old one in one step, so that no reader ever gets half of it."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else _MODE
        replace_file(target, content, mode)
    except OSError as error:
        raise _file_error("write", target, error) from error


def _file_error(action: str, target: pathlib.Path, error: OSError) -> MusterError:
    return MusterError(action, str(target), error.strerror or str(error))
