# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a release carried out. Whatever a killed run leaves behind, the next one finds and finishes."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import (
    HelmPlan,
    Objects,
    read_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import HelmProgram
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import ObjectChange, compare, write_changes
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.releases import (
    forget_revision,
    list_revisions,
    read_whole,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import remove_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import DEPLOYED, HelmRelease
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import as_helm_writes


@dataclasses.dataclass(frozen=True, slots=True)
class HelmOutcome:
    """What a run left."""

    release: HelmRelease | None
    # What was still to be written after helm, which does not look at everything.
    rest: tuple[ObjectChange, ...] = ()


def carry_out(client: KubeClient, helm: HelmProgram, plan: HelmPlan, timeout: float) -> HelmOutcome:
    """Do what was decided; definitions and the namespace have to be there.

    Nothing is forgotten that is still needed to know what to do: leftovers of a revision go before the revision does.
    """
    decision, source = plan.decision, plan.source
    if decision.action in ("found", "refused"):
        raise MusterError("install", f"release {source.full_name}", decision.words)
    remove_objects(client, plan.leftovers)
    for revision in decision.abandon:
        forget_revision(client, revision)
    if decision.finish_removal:
        helm.uninstall(source, timeout)
    if decision.run_helm and plan.chart is not None and plan.mark is not None:
        helm.upgrade(plan.chart.path, source, plan.mark, timeout)
    if not decision.apply_rest:
        return HelmOutcome(plan.release)
    release = _deployed(client, source)
    rest = [change for change in compare(client, _placed(client, release)) if change.action != "unchanged"]
    write_changes(client, rest, client.clock() + timeout)
    return HelmOutcome(release, tuple(rest))


def remove_release(client: KubeClient, helm: HelmProgram, plan: HelmPlan, timeout: float) -> None:
    """Remove a release as planned, with what its unfinished revisions made."""
    decision, source = plan.decision, plan.source
    if decision.action in ("found", "refused"):
        raise MusterError("remove", f"release {source.full_name}", decision.words)
    remove_objects(client, plan.leftovers)
    if decision.finish_removal:
        helm.uninstall(source, timeout)


def _deployed(client: KubeClient, source: HelmSource) -> HelmRelease:
    """The release as helm left it."""
    revisions = list_revisions(client, source.namespace, source.release)
    release = read_whole(client, revisions[-1]) if revisions else None
    if release is None or release.revision.status != DEPLOYED:
        status = "gone" if release is None else f"{release.revision.status}: {release.description}"
        raise MusterError("install", f"release {source.full_name}", f"it is {status}")
    return release


def _placed(client: KubeClient, release: HelmRelease) -> Objects:
    """The objects of a release as helm makes them."""

    def is_namespaced(api_version: str, kind: str) -> bool:
        """Whether objects of a kind lie in namespaces."""
        info = find_resource(client, api_version, kind)
        return info is None or info.namespaced

    return tuple(
        as_helm_writes(obj, release.revision, namespaced=is_namespaced(obj["apiVersion"], obj["kind"]))
        for obj in read_objects(release)
    )
