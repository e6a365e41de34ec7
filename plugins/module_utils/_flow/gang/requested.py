# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gangs a task wants: their specifications, and in which kind of record they are to be kept."""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import DEFAULT_NAMESPACE, read_gang
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.runtimes import Runtimes
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.deciders import refuse_other_deciders
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.job_range import with_carried_sizes
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.components import (
    gang_of_components,
    is_component_wrapper,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    MANAGED_LABEL,
    SUSPENDED_ANNOTATION,
    WRAPPER_API,
    WRAPPER_KIND,
    spec_of_wrapper,
    wrap,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    EXPIRES_ANNOTATION,
    PHASE_LABEL,
    RECORD_BYTES,
    SUBMITTED_ANNOTATION,
    build_record,
    require_headroom,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.refusal import object_warnings, refuse_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec, read_spec, spec_data
from ansible_collections.muster.kube.plugins.module_utils._model.gang.start_size import require_start_fits
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STATE_ANNOTATION, STATE_BYTES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import Store
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json, given_fields
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem, wrappers_served

# What was written into a record, or into one that a definition was copied from, is not for the next of its name.
_OF_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_OF_DISPATCHER = (STATE_ANNOTATION, EXPIRES_ANNOTATION, SUBMITTED_ANNOTATION)


@dataclasses.dataclass(frozen=True, slots=True)
class RequestedGang:
    """One gang as the task describes it; without objects (spec None) only its name is known.

    wrapper is the AppWrapper the user wrote, whatever the record will be; overridden when options of the task changed
    what it says.
    """

    name: str
    namespace: str
    spec: GangSpec | None
    wrapper: Data | None = None
    overridden: bool = False

    @property
    def target(self) -> str:
        """The gang as messages name it."""
        return f"gang {self.namespace}/{self.name}"


def read_wanted(options: GangOptions, runtimes: Runtimes | None = None) -> list[RequestedGang]:
    """All gangs of the task; what is wrong with them shows here, before anything but runtimes is asked of a cluster."""
    wanted = [_one(ask, index, options, runtimes) for index, ask in enumerate(options.gangs)]
    seen: dict[tuple[str, str], int] = {}
    for index, item in enumerate(wanted):
        first = seen.setdefault((item.namespace, item.name), index)
        if first != index:
            raise BadInput("read", f"gangs[{index}]", f"{item.target} is gangs[{first}] too; give it another name")
    return wanted


def _one(ask: GangAsk, index: int, task: GangOptions, runtimes: Runtimes | None) -> RequestedGang:
    """One gang from its options."""
    source = ask.source
    if not source.has_objects:
        if not source.name:
            raise BadInput("read", f"gangs[{index}]", "give definition or src, or the name of a gang that exists")
        return RequestedGang(source.name, source.namespace or DEFAULT_NAMESPACE, None)
    request = read_gang(source, index, runtimes)
    where = f"gang {request.namespace}/{request.name}"
    options = given_fields(ask.settings)
    if request.podsets is not None:
        options["podsets"] = list(request.podsets)
    wrapper = _only_wrapper(request.objects)
    if len(request.objects) == 1 and is_component_wrapper(request.objects[0]):
        base: Data = gang_of_components(request.objects[0], request.namespace)
    elif wrapper is None:
        base = {"objects": list(request.objects)}
    else:
        wrapper["metadata"] = {**wrapper["metadata"], "name": request.name, "namespace": request.namespace}
        base = spec_data(spec_of_wrapper(wrapper))
    if options.get("elastic"):
        options["elastic"] = with_carried_sizes(options["elastic"], base["objects"], request.namespace)
    named = {"name": request.name, "namespace": request.namespace, "suspended": task.state == "suspended"}
    spec = read_spec({**base, **options, **named}, where)
    # Of the two stores this one allows more; the rest is checked when the store is known.
    refuse_objects(spec, store="appwrapper")
    require_start_fits(spec)
    if spec.elastic is not None and task.state != "absent":
        refuse_other_deciders(spec.objects, spec.elastic.range, spec.namespace)
    return RequestedGang(request.name, request.namespace, spec, wrapper, bool(options))


def _only_wrapper(objects: t.Sequence[t.Mapping[str, t.Any]]) -> Data | None:
    """A copy of the AppWrapper when the definition is exactly one."""
    if len(objects) != 1 or (objects[0].get("apiVersion"), objects[0].get("kind")) != (WRAPPER_API, WRAPPER_KIND):
        return None
    if not isinstance(objects[0].get("metadata"), t.Mapping):
        raise BadInput("read", "AppWrapper: metadata", "it is missing")
    return copy.deepcopy(dict(objects[0]))


class Stores:
    """Which kind of record a gang gets; what was found out about the cluster is asked once."""

    def __init__(self, client: KubeClient, option: str) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._option = option

    def choose(self, wanted: RequestedGang) -> tuple[Store, str | None]:
        """The store and, where it is not what the definition suggests, why."""
        if self._option == "configmap":
            return "configmap", "store is configmap" if wanted.wrapper else None
        if self._option == "auto" and wanted.wrapper is None:
            return "configmap", None
        problem = self.wrapper_problem or _inexpressible(wanted)
        if problem is None:
            return "appwrapper", None
        if self._option == "appwrapper":
            raise BadInput("keep", f"{wanted.target} in an AppWrapper", f"{problem}; use store: configmap")
        return "configmap", problem

    def served(self) -> bool:
        """Whether AppWrappers of the version we know exist at all on this server."""
        return wrappers_served(self._client)

    @functools.cached_property
    def wrapper_problem(self) -> str | None:
        """Why AppWrappers cannot be records here; None when they can."""
        return wrapper_problem(self._client)


def _inexpressible(wanted: RequestedGang) -> str | None:
    """Why the gang cannot be written as an AppWrapper; None when it can, or is one."""
    if wanted.spec is None or (wanted.wrapper is not None and not wanted.overridden):
        return None
    try:
        wrap(wanted.spec)
    except BadInput as error:
        return f"{error.target}: {error.cause}"
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """A record as it is to be written: the object, without what a server adds, and the gang it then holds."""

    body: Data
    spec: GangSpec


def draft_record(wanted: RequestedGang, spec: GangSpec, store: Store, current: Record | None) -> Draft:
    """The record that is to hold the gang; what it cannot hold is refused.

    An AppWrapper is kept as its user wrote it; only where options of the task say otherwise it is written anew.
    """
    if store == "configmap":
        return Draft(build_record(spec), spec)
    if wanted.wrapper is not None and not wanted.overridden:
        body = copy.deepcopy(wanted.wrapper)
    elif wanted.spec is None and current is not None:
        body = copy.deepcopy({key: current.raw[key] for key in ("apiVersion", "kind", "metadata", "spec")})
    else:
        body = wrap(spec)
    metadata = body["metadata"] = _without(body["metadata"], _OF_SERVER)
    metadata["labels"] = {**_without(metadata.get("labels"), (PHASE_LABEL,)), MANAGED_LABEL: "true"}
    metadata["annotations"] = {
        **_without(metadata.get("annotations"), (SUSPENDED_ANNOTATION, *_OF_DISPATCHER)),
        **({SUSPENDED_ANNOTATION: "true"} if spec.suspended else {}),
    }
    require_headroom(metadata["annotations"], wanted.target)
    size = len(canonical_json(body)) + STATE_BYTES
    if size > RECORD_BYTES:
        cause = (
            f"its AppWrapper would need {size} bytes (with {STATE_BYTES} for its state) of at most {RECORD_BYTES}; put "
            "large files into ConfigMaps or volumes of their own that the objects refer to, or split the gang"
        )
        raise BadInput("queue", wanted.target, cause)
    return Draft(body, spec_of_wrapper(body))


def _without(fields: t.Mapping[str, t.Any] | None, names: t.Collection[str]) -> Data:
    """The fields but for these."""
    return {key: value for key, value in (fields or {}).items() if key not in names}


def check_objects(client: KubeClient, spec: GangSpec, store: Store) -> tuple[str, ...]:
    """Refuse what no gang may hold, by the scopes the server knows; returns what the user should be warned of."""

    def namespaced(api_version: str, kind: str) -> bool | None:
        """Whether the kind lives in a namespace; None when the server does not serve it (yet)."""
        info = find_resource(client, api_version, kind)
        return None if info is None else info.namespaced

    refuse_objects(spec, store=store, namespaced=namespaced)
    return object_warnings(spec, store=store)
