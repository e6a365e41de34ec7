# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists of objects, made as they are described: compared by the server's dry run, and written only where they differ.

Definitions of kinds (CRDs) come first, then namespaces, then the rest in the order given. A write is a server-side
apply, so it may be repeated: whatever a run that was killed has left is finished by the next one.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    ServerFault,
    Unauthorized,
    Unreachable,
    is_passing,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import ResourceInfo, find_resource, get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import FIELD_MANAGER, patch
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.object_changes import (
    covers,
    described_part,
    differing_parts,
    without_secrets,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    describe_object,
    group_and_kind,
    versionless_key,
)

Action = t.Literal["created", "changed", "unchanged", "pruned"]
Call = collections.abc.Callable[[], "T"]
Object = dict[str, t.Any]
T = t.TypeVar("T")

DEFAULT_NAMESPACE = "default"
DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
NAMESPACE = ("", "Namespace")
_RBAC = "rbac.authorization.k8s.io"
_ROLES = ((_RBAC, "ClusterRole"), (_RBAC, "Role"))
_BINDINGS = ((_RBAC, "ClusterRoleBinding"), (_RBAC, "RoleBinding"))
_SERVED_SECONDS = 0.2
# So many refusals are told in a message.
_MOST_TOLD = 10


class Label(t.NamedTuple):
    """The label by which objects are known to be ours."""

    key: str
    value: str

    @property
    def selector(self) -> str:
        """What the API server selects them by."""
        return f"{self.key}={self.value}"

    def is_on(self, obj: Object) -> bool:
        """Whether an object carries it."""
        return (obj["metadata"].get("labels") or {}).get(self.key) == self.value

    def put_on(self, obj: Object) -> Object:
        """A copy of an object that carries it."""
        labels = {**(obj["metadata"].get("labels") or {}), self.key: self.value}
        return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def is_ours(live: Object, label: Label, uids: collections.abc.Collection[str] = ()) -> bool:
    """Whether an object is ours: by its label, or because we made this very one and somebody took the label away.

    The uids come from records, into which others may have written anything: of them only those objects count that show
    that we have applied them, and that nobody has given to another component.
    """
    metadata = live["metadata"]
    if label.is_on(live):
        return True
    if metadata["uid"] not in uids or label.key in (metadata.get("labels") or {}):
        return False
    notes = metadata.get("managedFields") or ()
    return any((note.get("manager"), note.get("operation")) == (FIELD_MANAGER, "Apply") for note in notes)


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What is known beforehand when objects are compared."""

    # Objects that we made, by what is recorded of them.
    uids: frozenset[str] = frozenset()
    # Definitions of kinds and names of namespaces that others will have made by then.
    definitions: tuple[Object, ...] = ()
    namespaces: frozenset[str] = frozenset()
    # Whether a server in trouble says nothing about an object: the webhook that judges it may not be there yet.
    patient: bool = False

    def after(self, changes: collections.abc.Iterable[ObjectChange]) -> Known:
        """What is known of the objects that come after these: a webhook of theirs may not answer yet."""
        made = [change for change in changes if group_and_kind(change.obj) in (DEFINITION, NAMESPACE)]
        coming = {
            change.obj["metadata"]["name"]
            for change in made
            if group_and_kind(change.obj) == NAMESPACE and change.action == "created"
        }
        definitions = (change.obj for change in made if group_and_kind(change.obj) == DEFINITION)
        return dataclasses.replace(
            self,
            definitions=(*self.definitions, *definitions),
            namespaces=self.namespaces | coming,
            patient=True,
        )


_NOTHING_KNOWN = Known()


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectChange:
    """What happens to one object, or in check mode would happen."""

    obj: Object
    action: Action
    # Only the fields that change.
    before: Object = dataclasses.field(default_factory=dict)
    after: Object = dataclasses.field(default_factory=dict)
    # Nobody could ask the server about it: its namespace or its kind is still to be made.
    untried: bool = False

    def difference(self) -> Object:
        """What changes, in the form Ansible shows differences."""
        before, after = without_secrets(self.obj.get("kind"), self.before, self.after)
        name = describe_object(self.obj)
        return {"before_header": name, "after_header": name, "before": before, "after": after}

    def as_result(self) -> Object:
        """The object and what happens to it, as results tell it."""
        metadata = self.obj["metadata"]
        return {
            "apiVersion": self.obj["apiVersion"],
            "kind": self.obj["kind"],
            "namespace": metadata.get("namespace"),
            "name": metadata["name"],
            "action": self.action,
            "untried": self.untried,
        }


class Foreign(MusterError):
    """An object that is to be made is there and is somebody else's; live is that object."""

    def __init__(self, live: Object, label: Label) -> None:
        """Say how it could be handed over."""
        cause = f"it exists and is not ours; give it the label {label.selector} if it is to be taken over"
        super().__init__("apply", describe_object(live), cause)
        self.live = live


class SeveralRefusals(MusterError):
    """All that the server refuses, told at once."""

    def __init__(self, refusals: collections.abc.Sequence[MusterError]) -> None:
        """Name the first of them; the result has all."""
        told = [f"{error.action} {error.target}: {error.cause}" for error in refusals[:_MOST_TOLD]]
        told += [f"and {len(refusals) - _MOST_TOLD} more"] if len(refusals) > _MOST_TOLD else []
        super().__init__("apply", f"{len(refusals)} objects", "; ".join(told))
        self.refusals = refusals

    def as_result(self) -> dict[str, t.Any]:
        """The family's keys, and those of each refusal."""
        result = super().as_result()
        result["error"]["refusals"] = [error.as_result()["error"] for error in self.refusals]
        return result


def ask_all(calls: collections.abc.Iterable[Call[T]]) -> list[T]:
    """The answers to all calls; what the server refuses is raised when everything was asked, in one error."""

    def kept(call: Call[T]) -> T | MusterError:
        """One answer, or the refusal."""
        try:
            return call()
        except (Unauthorized, Unreachable):
            raise
        except MusterError as error:
            return error

    answers = parallel([functools.partial(kept, call) for call in calls])
    refusals = [answer for answer in answers if isinstance(answer, MusterError)]
    if refusals:
        raise refusals[0] if len(refusals) == 1 else SeveralRefusals(refusals)
    return t.cast("list[T]", answers)


def in_order(objects: collections.abc.Iterable[Object]) -> list[Object]:
    """The objects in the order in which they can be made."""
    return sorted(objects, key=lambda obj: {DEFINITION: 0, NAMESPACE: 1}.get(group_and_kind(obj), 2))


def compare(
    client: KubeClient,
    objects: collections.abc.Iterable[Object],
    label: Label | None = None,
    known: Known = _NOTHING_KNOWN,
) -> list[ObjectChange]:
    """What has to be done so that the objects are as described, in order; nothing is written.

    With a label each object gets it. What is there without it is somebody else's: a namespace is used and left as it
    is, anything else is refused.
    """
    ordered = [obj if label is None else label.put_on(obj) for obj in in_order(objects)]
    comparison = _Comparison(client, label, [obj for obj in ordered if group_and_kind(obj) == DEFINITION], known)
    makers = [obj for obj in ordered if group_and_kind(obj) in (DEFINITION, NAMESPACE)]
    changes = ask_all(functools.partial(comparison.try_one, obj) for obj in makers)
    comparison.coming |= {
        change.obj["metadata"]["name"]
        for change in changes
        if change.action == "created" and group_and_kind(change.obj) == NAMESPACE
    }
    comparison.early = _bindings_behind_their_roles(ordered)
    return changes + ask_all(functools.partial(comparison.try_one, obj) for obj in ordered[len(makers) :])


def _bindings_behind_their_roles(objects: collections.abc.Iterable[Object]) -> frozenset[tuple[str, str, str, str]]:
    """The bindings whose roles come before them in the list."""
    roles: set[tuple[str, str, str]] = set()
    found = set()
    for obj in objects:
        home = str(obj["metadata"].get("namespace") or DEFAULT_NAMESPACE)
        if group_and_kind(obj) in _ROLES:
            roles.add((obj["kind"], home if obj["kind"] == "Role" else "", obj["metadata"]["name"]))
        elif group_and_kind(obj) in _BINDINGS:
            role = obj.get("roleRef") or {}
            if (role.get("kind"), home if role.get("kind") == "Role" else "", role.get("name")) in roles:
                # Also where it will lie if it names no namespace.
                found |= {versionless_key(obj), versionless_key(_placed(obj, obj["kind"] == "RoleBinding"))}
    return frozenset(found)


class _Comparison:
    """What is known about a list of objects while they are compared."""

    def __init__(self, client: KubeClient, label: Label | None, definitions: list[Object], known: Known) -> None:
        """The definitions of kinds say which kinds will be served, and whether in namespaces."""
        self._client = client
        self._label = label
        self._known = known
        self._kinds = {
            (crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"].get("scope") != "Cluster"
            for crd in (*definitions, *known.definitions)
        }
        # Namespaces that will be made.
        self.coming: set[str] = set(known.namespaces)
        # Bindings of roles that will be there: who may grant and not bind is told that they are missing.
        self.early: frozenset[tuple[str, str, str, str]] = frozenset()

    def try_one(self, obj: Object) -> ObjectChange:
        """What would become of an object; refusals of the server are raised."""
        info = find_resource(self._client, obj["apiVersion"], obj["kind"])
        if info is None:
            if group_and_kind(obj) not in self._kinds:
                raise _not_served(obj)
            placed = _placed(obj, self._kinds[group_and_kind(obj)])
            return ObjectChange(placed, "created", after=placed, untried=True)
        obj = _placed(obj, info.namespaced)
        live = get_object(self._client, object_path(info, obj))
        if live is None and group_and_kind(obj) == NAMESPACE and obj["metadata"]["name"] in self._known.namespaces:
            return ObjectChange(obj, "unchanged", untried=True)
        if live is None and info.namespaced and obj["metadata"]["namespace"] in self.coming:
            return ObjectChange(obj, "created", after=obj, untried=True)
        if live is None:
            return self._try_creation(info, obj)
        if live["metadata"].get("deletionTimestamp"):
            raise MusterError("apply", describe_object(obj), "it is being deleted; run again when it is gone")
        if self._label is None or is_ours(live, self._label, self._known.uids):
            return self._try_change(info, obj, live)
        if group_and_kind(obj) == NAMESPACE:
            return ObjectChange(obj, "unchanged")
        raise Foreign({**live, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}, self._label)

    def _try_creation(self, info: ResourceInfo, obj: Object) -> ObjectChange:
        """What would become of an object that is not there."""
        try:
            _apply(self._client, info, obj, dry_run=True)
        except ServerFault:
            if not self._known.patient:
                raise
            return ObjectChange(obj, "created", after=obj, untried=True)
        except NotFound:
            if versionless_key(obj) not in self.early:
                raise
            return ObjectChange(obj, "created", after=obj, untried=True)
        return ObjectChange(obj, "created", after=obj)

    def _try_change(self, info: ResourceInfo, obj: Object, live: Object) -> ObjectChange:
        """What would become of an object that is there; who may not write it need not if it is as described."""
        try:
            result = _apply(self._client, info, obj, dry_run=True)
        except Forbidden:
            if covers(live, obj):
                return ObjectChange(obj, "unchanged")
            raise
        except ServerFault:
            if not self._known.patient:
                raise
            return ObjectChange(obj, "unchanged" if covers(live, obj) else "changed", untried=True)
        before, after = differing_parts(described_part(live), described_part(result))
        return ObjectChange(obj, "changed" if before or after else "unchanged", before, after)


def write_changes(client: KubeClient, changes: collections.abc.Iterable[ObjectChange], deadline: float) -> None:
    """Carry out what was found by comparing, in order; new kinds are waited for until the deadline."""
    pending = [change.obj for change in changes if change.action in ("created", "changed")]
    definitions = [obj for obj in pending if group_and_kind(obj) == DEFINITION]
    parallel([functools.partial(_write, client, obj) for obj in definitions], width=4)
    for change in changes if pending else ():
        if group_and_kind(change.obj) == DEFINITION:
            wait_until_served(client, change.obj, deadline)
    for obj in pending:
        if group_and_kind(obj) != DEFINITION:
            _write(client, obj)


def wait_until_served(client: KubeClient, crd: Object, deadline: float) -> None:
    """Return when the API server serves the kind that a CRD defines."""
    while not outlast(client, deadline, lambda: is_served(client, crd)):
        if client.clock() > deadline:
            raise MusterError("wait for", describe_object(crd), "the API server does not serve it in time")
        client.sleep(_SERVED_SECONDS)


def outlast(client: KubeClient, deadline: float, ask: Call[T]) -> T:
    """The answer to a question; until the deadline it is asked again while the server is in trouble or away."""
    while True:
        try:
            return ask()
        except KubeError as error:
            if not is_passing(error) or client.clock() > deadline:
                raise
            client.sleep(client.retry.longest_pause)


def is_served(client: KubeClient, crd: Object) -> bool:
    """True when discovery shows the kind in all its versions; asking there is far cheaper than reading CRDs."""
    spec = crd["spec"]
    versions = [f"{spec['group']}/{version['name']}" for version in spec["versions"] if version.get("served")]
    return all(find_resource(client, version, spec["names"]["kind"]) is not None for version in versions)


def _write(client: KubeClient, obj: Object) -> None:
    """Make one object as described."""
    info = find_resource(client, obj["apiVersion"], obj["kind"])
    if info is None:
        raise _not_served(obj)
    _apply(client, info, _placed(obj, info.namespaced))


def _apply(client: KubeClient, info: ResourceInfo, obj: Object, *, dry_run: bool = False) -> Object:
    """One server-side apply; it may be sent again after a lost answer or when others wrote at the same time."""
    failures = 0
    while True:
        try:
            return patch(
                client,
                object_path(info, obj),
                obj,
                patch_type="apply",
                force=True,
                dry_run=dry_run,
                target=describe_object(obj),
            )
        except KubeError as error:
            failures += 1
            again = isinstance(error, Conflict) or is_passing(error)
            if not again or failures >= client.retry.tries:
                raise
            client.sleep(client.retry.pause(failures))


def _placed(obj: Object, namespaced: bool) -> Object:
    """The object with a namespace if its kind has one, and else with none, whatever it names."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    if namespaced:
        metadata["namespace"] = obj["metadata"].get("namespace") or DEFAULT_NAMESPACE
    return {**obj, "metadata": metadata}


def in_place(client: KubeClient, obj: Object) -> Object:
    """The object with the namespace it lies in, as far as the server knows its kind."""
    info = find_resource(client, obj["apiVersion"], obj["kind"])
    return obj if info is None else _placed(obj, info.namespaced)


def object_path(info: ResourceInfo, obj: Object) -> str:
    """Where an object lies."""
    return info.path(obj["metadata"].get("namespace") or DEFAULT_NAMESPACE, obj["metadata"]["name"])


def _not_served(obj: Object) -> MusterError:
    """The error about a kind that nobody knows."""
    return MusterError("create", describe_object(obj), "the API server does not serve this kind")
