# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task wants inspected, as values."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildOptions
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import Engine as BuildEngine
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

State = t.Literal["present", "absent", "cancelled"]
Engine = t.Literal["job", "local"]
Report = t.Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class ScriptSource:
    """Where a script comes from: its text, a file, or a URL with the checksum of what lies there."""

    script: str | None = None
    src: str | None = None
    url: str | None = None
    checksum: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """How the script is run, as the user wrote it; None where nothing is said."""

    interpreter: str | None = None
    args: tuple[str, ...] = ()
    env: t.Mapping[str, t.Any] | None = None
    files: tuple[Data, ...] = ()
    workdir: str | None = None
    requests: t.Mapping[str, t.Any] | None = None
    hardware: Data | None = None
    repetitions: int | None = None
    parallelism: int | None = None
    warmup: int | None = None
    allowed_failures: int | None = None
    output_bytes: int | None = None
    service_account: str | None = None
    pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Data, ...] = ()
    priority_class: str | None = None
    runtime_class: str | None = None
    security: Data | None = None
    volumes: tuple[Data, ...] = ()
    # The folder of the user as whom an Amun request runs.
    home: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class InspectionOptions:
    """The options of the task; stack and build say what is built and how.

    ignored names fields of an Amun request that have no effect. With wait_for_nodes nodes with the hardware asked for
    may come later.
    """

    state: State = "present"
    namespace: str = "default"
    inspection_id: str | None = None
    identifier: str | None = None
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    image: str | None = None
    stack: BuildSpec | None = None
    build: BuildSettings = dataclasses.field(default_factory=BuildSettings)
    build_engine: BuildEngine = "auto"
    source: ScriptSource | None = None
    run: RunOptions = RunOptions()
    wait_for_nodes: bool = False
    engine: Engine = "job"
    timeout: float = 3600.0
    start_timeout: float = 1800.0
    ttl: float | None = None
    wait: bool = True
    force: bool = False
    fail_when_failed: bool = True
    collector: str | None = None
    build_script: str | None = None
    ignored: tuple[str, ...] = ()
    check_mode: bool = False
    cells: tuple[InspectionCell, ...] = ()
    fail_fast: bool = False

    def build_options(self) -> BuildOptions:
        """The build as a task of its own; a script that is run again needs no other image."""
        return BuildOptions(
            engine=self.build_engine,
            namespace=self.namespace,
            spec=self.stack,
            settings=self.build,
            script=self.build_script,
            wait=self.wait,
            check_mode=self.check_mode,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class InspectionCell:
    """One cell of a matrix: its name, its values by axis, and the options of its inspection."""

    name: str
    axes: t.Mapping[str, str]
    options: InspectionOptions


def checked(terms: InspectionOptions) -> InspectionOptions:
    """Terms that make sense together, or the first thing that does not."""
    if (terms.image is None) == (terms.stack is None):
        raise BadInput("read", "the task", "exactly one of image, stack and specification is needed")
    if terms.stack is None and terms.source is None:
        raise BadInput("read", "script", "a ready image needs a script: give script, src or url")
    if terms.inspection_id is not None:
        raise BadInput("read", "inspection_id", "it follows from the specification; give identifier to mark it")
    if terms.source is not None and not terms.collector:
        cause = "it is missing; the action plugin of this collection reads it on the controller"
        raise BadInput("run", "collector", cause)
    return terms
