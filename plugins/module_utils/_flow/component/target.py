# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a component is to become: its rendered objects, those that come first and those that come later."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import (
    checked_definitions,
    unique_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.run import COMPONENT_LABEL
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.kustomize import Kustomization
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.manifest import Manifest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.source import (
    ComponentSource,
    Runner,
    rendered,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import DEFINITION, NAMESPACE, Label, Object
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import (
    Component,
    KustomizeSource,
    ManifestSource,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import ComponentRecord
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind
from ansible_collections.muster.kube.plugins.module_utils._policy.component.blank_bundles import without_blank_bundles


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A component with its objects."""

    component: Component
    main: tuple[Object, ...]
    # Objects of kinds that the component defines itself, and those that it is given: they need it at work.
    late: tuple[Object, ...]
    smoke: tuple[Object, ...]
    digest: str
    smoke_digest: str

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
            digest=self.digest,
            smoke="" if before is None else before.smoke,
            depends_on=component.depends_on,
            unknown={} if before is None else before.unknown,
        )


def label_of(name: str) -> Label:
    """The label of a component's objects."""
    return Label(COMPONENT_LABEL, name)


def render_target(component: Component, run: Runner) -> Target:
    """Render a component; what cannot be applied is refused before the cluster is asked for anything."""
    where = component.where
    found = map(without_blank_bundles, _source(component, run).render().objects)
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
    digest = rendered([*main, *late]).digest
    version = {"apiVersion": "v1", "kind": "Digest", "metadata": {"name": f"{component.version} {digest}"}}
    return Target(component, tuple(main), tuple(late), tuple(smoke), digest, rendered([version, *smoke]).digest)


def _source(component: Component, run: Runner) -> ComponentSource:
    """The source of a component's objects."""
    if isinstance(component.source, ManifestSource):
        return Manifest(component.source, component.where)
    if isinstance(component.source, KustomizeSource):
        return Kustomization(component.source, component.where, run)
    raise BadInput("read", f"{component.where}: source", "it is missing: give objects in definition or src")


def _homed(objects: Iterable[Object], namespace: str | None) -> list[Object]:
    """The objects, in the component's namespace where they name none; kinds without namespaces lose it again."""
    if namespace is None:
        return list(objects)
    return [{**obj, "metadata": {"namespace": namespace, **obj["metadata"]}} for obj in objects]


def _is_namespace(obj: Object, name: str) -> bool:
    return group_and_kind(obj) == NAMESPACE and obj["metadata"]["name"] == name
