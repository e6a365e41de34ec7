# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A component in a cluster: its objects are made as described, known by a label, and taken away again."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import (
    ComponentOptions,
    namespaces_of,
    read_definitions,
    unique_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.removals import split_removals
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    DEFINITION,
    NAMESPACE,
    Label,
    Object,
    ObjectChange,
    compare,
    in_order,
    in_place,
    object_path,
    outlast,
    write_changes,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import (
    LabeledObjects,
    find_labeled,
    is_going,
    is_usual,
    pruned,
    read_labeled,
    remove_objects,
    try_removals,
    wait_until_gone,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    describe_object,
    group_and_kind,
    versionless_key,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.health import has_health, health

Report = collections.abc.Callable[[str], None]
COMPONENT_LABEL = "muster.kube/component"
# With these would go what others keep in them: they are removed with the whole component only.
_KEPT_FROM_PRUNING = (DEFINITION, NAMESPACE, ("", "PersistentVolumeClaim"))
_LOOK_SECONDS = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentResult:
    """What was done, or in check mode would be done."""

    changes: tuple[ObjectChange, ...]
    # What this account may not list.
    unseen: tuple[str, ...] = ()
    # Namespaces and definitions of kinds that stay because others need them.
    kept: tuple[str, ...] = ()
    # What the task waited for in vain.
    problem: MusterError | None = None
    warnings: tuple[str, ...] = ()

    def as_result(self, *, diff: bool) -> dict[str, t.Any]:
        """The keys of the module's result."""
        news = [change for change in self.changes if change.action != "unchanged"]
        shown = {"diff": [change.difference() for change in news]} if diff else {}
        failure = {} if self.problem is None else {"failed": True, **self.problem.as_result()}
        warned = {"warnings": list(self.warnings)} if self.warnings else {}
        return {
            "changed": bool(news),
            "objects": [change.as_result() for change in self.changes],
            "unseen": list(self.unseen),
            "kept": list(self.kept),
            **shown,
            **warned,
            **failure,
        }


def run_component(
    connection: collections.abc.Callable[[], KubeClient], options: ComponentOptions, report: Report
) -> ComponentResult:
    """Make the component what the task says."""
    objects = read_definitions(options)
    work = _Work(connection(), options, objects, report)
    return work.remove() if options.state == "absent" else work.install()


class _Work:
    """One task on one component."""

    def __init__(self, client: KubeClient, options: ComponentOptions, objects: list[Object], report: Report) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._options = options
        self._objects = objects
        self._report = report
        self._label = Label(COMPONENT_LABEL, options.name)

    def install(self) -> ComponentResult:
        """Write what differs and remove what is left over, after the server was asked about all of it."""
        changes = compare(self._client, self._objects, self._label)
        wanted = unique_keys([change.obj for change in changes], f"component {self._options.name}")
        found = self._find() if self._options.prune else LabeledObjects((), ())
        leftovers = [
            obj
            for obj in found.objects
            if versionless_key(obj) not in wanted
            and group_and_kind(obj) not in _KEPT_FROM_PRUNING
            and not is_going(obj)
        ]
        try_removals(self._client, leftovers)
        result = ComponentResult((*changes, *map(pruned, leftovers)), found.unseen)
        if self._options.check_mode:
            return result
        write_changes(self._client, changes, self._client.clock() + self._options.wait_timeout)
        remove_objects(self._client, leftovers)
        return self._waited(result, functools.partial(self._wait_until_healthy, [change.obj for change in changes]))

    def remove(self) -> ComponentResult:
        """Remove what is there of the component, or of the given objects only."""
        found = self._find() if self._options.prune else self._find_given()
        going, kept = split_removals(self._client, self._label, found.objects, every=self._options.prune)
        fresh = [obj for obj in going if not is_going(obj)]
        try_removals(self._client, fresh)
        names = tuple(obj["metadata"]["name"] for obj in kept)
        left = f"of component {self._options.name} more may be left, where this account may not look"
        warnings = (f"{left}: {', '.join(found.unseen)}",) if found.unseen else ()
        result = ComponentResult(tuple(map(pruned, fresh)), found.unseen, names, warnings=warnings)
        if self._options.check_mode:
            return result
        first = self._take_away([obj for obj in going if not is_usual(obj)], result)
        if first.problem is not None:
            acted = tuple(change for change in result.changes if not is_usual(change.obj))
            return dataclasses.replace(first, changes=acted)
        return self._take_away([obj for obj in going if is_usual(obj)], result)

    def _take_away(self, objects: list[Object], result: ComponentResult) -> ComponentResult:
        """Remove some of the objects; the result tells if they do not go."""
        remove_objects(self._client, [obj for obj in objects if not is_going(obj)])
        return self._waited(result, functools.partial(wait_until_gone, self._client, objects))

    def _find(self) -> LabeledObjects:
        """Everything there is of the component."""
        places = namespaces_of([in_place(self._client, obj) for obj in self._objects])
        return find_labeled(self._client, self._label, self._objects, places)

    def _find_given(self) -> LabeledObjects:
        """What there is of the objects the task names."""
        return LabeledObjects(read_labeled(self._client, self._label, in_order(self._objects)), ())

    def _waited(self, result: ComponentResult, wait: collections.abc.Callable[[float], None]) -> ComponentResult:
        """The result after waiting; what was waited for in vain fails the task, which still tells what it did.

        The time begins here: what a slow server takes for the writes before is none of it.
        """
        if not self._options.wait:
            return result
        try:
            wait(self._client.clock() + self._options.wait_timeout)
        except MusterError as error:
            return dataclasses.replace(result, problem=error)
        return result

    def _wait_until_healthy(self, objects: list[Object], deadline: float) -> None:
        """Return when every object has become what it is for."""
        for obj in objects:
            told = ""
            while has_health(obj):
                found = health(outlast(self._client, deadline, functools.partial(self._read, obj)))
                if found.ready:
                    break
                if found.failed or self._client.clock() > deadline:
                    raise MusterError("wait for", describe_object(obj), found.text)
                if found.text != told:
                    told = found.text
                    self._report(f"waiting for {describe_object(obj)}: {told}")
                self._client.sleep(_LOOK_SECONDS)

    def _read(self, obj: Object) -> Object:
        """An object as it is now."""
        info = find_resource(self._client, obj["apiVersion"], obj["kind"])
        live = None if info is None else get_object(self._client, object_path(info, obj))
        if live is None:
            raise MusterError("wait for", describe_object(obj), "somebody else has removed it")
        return live
