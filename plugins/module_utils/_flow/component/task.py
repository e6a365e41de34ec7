# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A task of the module: objects known by their label alone, or components with a record."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.office import Connection, Report, Surroundings
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import (
    ComponentOptions,
    read_definitions,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.provision import ProvisionOptions, provision
from ansible_collections.muster.kube.plugins.module_utils._flow.component.run import run_component
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import (
    AS_FOUND,
    ProgramPaths,
    SourcePrograms,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import has_record


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentTask:
    """What a task asks for; plain is set if it names no source, and recorded says then how a record is removed."""

    recorded: ProvisionOptions
    plain: ComponentOptions | None = None
    programs: ProgramPaths = AS_FOUND


def run_task(
    connection: Connection,
    task: ComponentTask,
    report: Report,
    programs: SourcePrograms,
    *,
    diff: bool,
    around: Surroundings | None = None,
) -> dict[str, t.Any]:
    """The result of a task."""
    plain = task.plain
    if plain is not None and not _has_record(connection, plain, task.recorded.record_namespace):
        return run_component(connection, plain, report).as_result(diff=diff)
    return provision(connection, task.recorded, report, programs, around).as_result(diff=diff)


def _has_record(connection: Connection, plain: ComponentOptions, namespace: str) -> bool:
    """Whether a component has to be removed by its record; made anew without its source it would lose it."""
    read_definitions(plain)
    found = has_record(connection(), plain.name, namespace)
    if found and (plain.state == "present" or not plain.prune):
        cause = "it has a record, which says more than its objects; say with source where they come from"
        raise BadInput("change", f"component {plain.name}", cause)
    return found
