# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a component is to become: its rendered objects, those that come first and those that come later."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import (
    checked_definitions,
    unique_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.run import COMPONENT_LABEL
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.chart import Chart, located_chart
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import HelmProgram
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.kustomize import Kustomization
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.manifest import Manifest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import SourcePrograms
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.source import (
    ComponentSource,
    rendered,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import DEFINITION, NAMESPACE, Label, Object
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import (
    Component,
    KustomizeSource,
    ManifestSource,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import ComponentRecord
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind
from ansible_collections.muster.kube.plugins.module_utils._policy.component.blank_bundles import without_blank_bundles


@dataclasses.dataclass(frozen=True, slots=True)
class TargetRelease:
    """What a component has helm install: a chart that is on this machine now."""

    source: HelmSource
    chart: Chart
    helm: HelmProgram


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A component with its objects; those of a chart are known when it is rendered against a cluster."""

    component: Component
    main: tuple[Object, ...]
    # Objects of kinds that the component defines itself, and those that it is given: they need it at work.
    late: tuple[Object, ...]
    smoke: tuple[Object, ...]
    digest: str
    smoke_digest: str
    release: TargetRelease | None = None

    @property
    def label(self) -> Label:
        """The label by which its objects are known."""
        return label_of(self.component.name)

    def as_record(self, before: ComponentRecord | None) -> ComponentRecord:
        """The record of this version, with what the one before says besides."""
        component = self.component
        return ComponentRecord(
            name=component.name,
            phase="installed",
            version=component.version,
            source=component.source_name,
            release="" if self.release is None else self.release.source.full_name,
            digest=self.digest,
            smoke="" if before is None else before.smoke,
            depends_on=component.depends_on,
            unknown={} if before is None else before.unknown,
        )


def label_of(name: str) -> Label:
    """The label of a component's objects."""
    return Label(COMPONENT_LABEL, name)


@contextlib.contextmanager
def rendered_targets(components: Iterable[Component], programs: SourcePrograms) -> t.Iterator[list[Target]]:
    """Render components; what cannot be applied is refused before the cluster is asked for anything.

    Charts that have to be fetched are there as long as the block lasts.
    """
    with contextlib.ExitStack() as stack:
        yield [_render_target(component, programs, stack) for component in components]


def _render_target(component: Component, programs: SourcePrograms, stack: contextlib.ExitStack) -> Target:
    """Render one component."""
    where, release, told = component.where, None, ""
    if isinstance(component.source, HelmSource):
        helm = programs.helm()
        release = TargetRelease(component.source, stack.enter_context(located_chart(helm, component.source)), helm)
        told = canonical_json([release.source.release, release.chart.digest, release.source.values])
        objects: list[Object] = []
    else:
        found = map(without_blank_bundles, _source(component, programs).render().objects)
        objects = _homed(found, component.namespace)
    if component.namespace and not any(_is_namespace(obj, component.namespace) for obj in objects):
        metadata = {"name": component.namespace}
        objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, *objects]
    given = component.resources
    resources = [] if given is None else checked_definitions(given, None, f"{where}: resources", may_be_empty=True)
    resources = _homed(resources, component.namespace)
    defined = {
        (obj["spec"]["group"], obj["spec"]["names"]["kind"]) for obj in objects if group_and_kind(obj) == DEFINITION
    }
    late = [obj for obj in objects if group_and_kind(obj) in defined] + resources
    main = [obj for obj in objects if group_and_kind(obj) not in defined]
    unique_keys([*main, *late], where)
    smoke: list[Object] = []
    if component.smoke is not None:
        smoke = checked_definitions(component.smoke.definition, None, f"{where}: smoke")
        smoke = _homed(smoke, component.namespace)
        unique_keys([*main, *late, *smoke], where)
    digest = rendered([*main, *late, *([_note(told)] if told else [])]).digest
    smoke_digest = rendered([_note(f"{component.version} {digest}"), *smoke]).digest
    return Target(component, tuple(main), tuple(late), tuple(smoke), digest, smoke_digest, release)


def _note(text: str) -> Object:
    """A text among objects of which a digest is made."""
    return {"apiVersion": "v1", "kind": "Digest", "metadata": {"name": text}}


def _source(component: Component, programs: SourcePrograms) -> ComponentSource:
    """The source of a component's objects."""
    if isinstance(component.source, ManifestSource):
        return Manifest(component.source, component.where)
    if isinstance(component.source, KustomizeSource):
        return Kustomization(component.source, component.where, programs)
    raise BadInput("read", f"{component.where}: source", "it is missing: give objects in definition or src")


def _homed(objects: Iterable[Object], namespace: str | None) -> list[Object]:
    """The objects, in the component's namespace where they name none; kinds without namespaces lose it again."""
    if namespace is None:
        return list(objects)
    return [{**obj, "metadata": {"namespace": namespace, **obj["metadata"]}} for obj in objects]


def _is_namespace(obj: Object, name: str) -> bool:
    return group_and_kind(obj) == NAMESPACE and obj["metadata"]["name"] == name
