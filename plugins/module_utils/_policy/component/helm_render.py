# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What helm renders, taken apart: objects, hooks, and the definitions that helm installs once and never upgrades."""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import HelmRevision
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.object_changes import without_secrets
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    Object,
    group_and_kind,
    value_at,
    versionless_key,
)

HOOK_ANNOTATION = "helm.sh/hook"
POLICY_ANNOTATION = "helm.sh/resource-policy"
MANAGED_BY = "app.kubernetes.io/managed-by"
HELM = "Helm"
RELEASE_NAME = "meta.helm.sh/release-name"
RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
# A label has room for no more than 63 characters.
_MARK_LENGTH = 40
# In place of what each render makes anew, such as a password.
MADE_ANEW = "(made anew by each render)"
# As the client library takes texts apart: the line before keeps its end, which counts in texts that go on to it.
_SEPARATOR = re.compile(r"^---[ \t]*(?:#.*)?(?:\n|\Z)", re.MULTILINE)
_SOURCE = re.compile(r"^# Source: (\S+)$", re.MULTILINE)
_DEFINITIONS = re.compile(r"(?:^|/)crds/")
_TEMPLATES = re.compile(r"^[^/]+/(?:charts/[^/]+/)*templates/")


class RenderedText(t.NamedTuple):
    """One document of a render and the file of the chart that it comes from."""

    source: str
    text: str

    @property
    def is_definition(self) -> bool:
        """Whether it lies in crds/, which helm does not render."""
        return bool(_DEFINITIONS.search(self.source)) and not _TEMPLATES.match(self.source)


def split_text(text: str) -> list[RenderedText]:
    """The documents of a render. A file of crds/ may hold several, of which the first alone is told its source."""
    found: list[RenderedText] = []
    source = ""
    for document in _SEPARATOR.split(text):
        named = _SOURCE.search(document)
        source = named[1] if named else source
        if document.strip():
            found.append(RenderedText(source, document))
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class HelmRender:
    """What a chart becomes with its values."""

    objects: tuple[Object, ...]
    hooks: tuple[Object, ...] = ()
    # What lies in crds/.
    definitions: tuple[Object, ...] = ()

    def digest(self, chart: tuple[str, str], values: collections.abc.Mapping[str, t.Any]) -> str:
        """What is the same for equal releases, in whatever order their objects are.

        Definitions are not among it, since helm has nothing to do with them. Who guesses a secret value can see by it
        that he is right, so it belongs where the value is.
        """
        text = canonical_json([chart, values, _digest((self.objects, self.hooks))])
        return hashlib.sha256(text.encode()).hexdigest()[:_MARK_LENGTH]

    def public_digest(self) -> str:
        """The digest of all objects without what Secrets hold, for everybody to see."""
        parts = (self.objects, self.hooks, self.definitions)
        shown = [[without_secrets(obj.get("kind"), obj, {})[0] for obj in part] for part in parts]
        return f"sha256:{_digest(shown)}"


def _digest(parts: collections.abc.Iterable[collections.abc.Iterable[Object]]) -> str:
    text = canonical_json([sorted(map(canonical_json, part)) for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()


def take_apart(documents: collections.abc.Iterable[tuple[RenderedText, list[t.Any]]]) -> HelmRender:
    """The objects of a render by what helm does with them; each text comes with the objects that it says."""
    objects: list[Object] = []
    hooks: list[Object] = []
    definitions: list[Object] = []
    for text, said in documents:
        for obj in flattened(said, text.source):
            if text.is_definition:
                definitions.append(obj)
            elif value_at(obj, ("metadata", "annotations", HOOK_ANNOTATION)):
                hooks.append(obj)
            else:
                objects.append(obj)
    return HelmRender(tuple(objects), tuple(hooks), tuple(definitions))


def flattened(said: collections.abc.Iterable[t.Any], where: str) -> t.Iterator[Object]:
    """Objects in their normal form, lists of objects as their items; what can be none is refused."""
    for obj in said:
        if not isinstance(obj, collections.abc.Mapping):
            raise BadInput("read", where, f"an object is a mapping, this is a {type(obj).__name__}")
        if obj.get("kind") == "List" and "items" in obj:
            yield from flattened(obj["items"] or (), where)
        elif obj:
            wrong = [name for name, value in _address(obj).items() if not isinstance(value, str) or not value]
            if wrong:
                raise BadInput("read", f"{where}: {obj.get('kind')}", f"{', '.join(wrong)}: missing, or no text")
            yield normalized(obj)


def _address(obj: collections.abc.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The fields by which an object is found."""
    paths = (("apiVersion",), ("kind",), ("metadata", "name"))
    return {".".join(path): value_at(obj, path) for path in paths}


def normalized(obj: collections.abc.Mapping[str, t.Any]) -> Object:
    """An object without metadata that are left empty, and without a status, neither of which anybody asks for."""
    kept = {key: value for key, value in obj.items() if key != "status"}
    if isinstance(kept.get("metadata"), dict):
        metadata = {key: value for key, value in kept["metadata"].items() if value is not None}
        for field in ("labels", "annotations"):
            if isinstance(metadata.get(field), dict):
                metadata[field] = {key: value for key, value in metadata[field].items() if value is not None}
        kept["metadata"] = metadata
    return kept


def agreed(one: t.Any, other: t.Any) -> t.Any:
    """What two renders of the same say alike; the rest is made anew each time."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = dict.fromkeys((*one, *other))
        return {key: agreed(one[key], other[key]) if key in one and key in other else MADE_ANEW for key in keys}
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [agreed(left, right) for left, right in zip(one, other, strict=True)]
    return one if one == other else MADE_ANEW


def agreed_render(one: HelmRender, other: HelmRender) -> HelmRender:
    """A render in which what is made anew each time is not told."""
    parts = ((one.objects, other.objects), (one.hooks, other.hooks), (one.definitions, other.definitions))
    return HelmRender(*(_agreed_objects(left, right) for left, right in parts))


def _agreed_objects(one: tuple[Object, ...], other: tuple[Object, ...]) -> tuple[Object, ...]:
    """The objects of both; where not even their number is the same nothing is known of any."""
    if len(one) != len(other):
        return ({"kind": MADE_ANEW},)
    return tuple(
        found if isinstance(found := agreed(left, right), dict) else {"kind": MADE_ANEW}
        for left, right in zip(one, other, strict=True)
    )


def matches(pattern: t.Any, found: t.Any) -> bool:
    """Whether something is as a render says, but for what is made anew each time."""
    if pattern == MADE_ANEW:
        return True
    if isinstance(pattern, dict) and isinstance(found, dict):
        if any(pattern[key] != MADE_ANEW for key in pattern.keys() - found.keys()) or found.keys() - pattern.keys():
            return False
        return all(matches(value, found[key]) for key, value in pattern.items() if key in found)
    if isinstance(pattern, list | tuple) and isinstance(found, list | tuple):
        return len(pattern) == len(found) and all(map(matches, pattern, found))
    return bool(pattern == found)


def same_objects(pattern: tuple[Object, ...], found: tuple[Object, ...]) -> bool:
    """Whether two lists hold the same objects in any order, but for what is made anew each time."""
    wanted, there = _by_key(pattern), _by_key(found)
    return wanted.keys() == there.keys() and all(matches(wanted[key], there[key]) for key in wanted)


def _by_key(objects: tuple[Object, ...]) -> dict[tuple[t.Any, ...], Object]:
    """Objects by what tells them apart; those whose name is made anew are told apart by all else."""
    found: dict[tuple[t.Any, ...], Object] = {}
    for obj in objects:
        named = value_at(obj, ("metadata", "name")) is not None
        found[versionless_key(obj) if named else (canonical_json(obj),)] = obj
    return found


def as_helm_writes(obj: Object, release: HelmRevision, *, namespaced: bool) -> Object:
    """An object as helm makes it: in the namespace of its release, and told whose it is."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace" or namespaced}
    if namespaced and not metadata.get("namespace"):
        metadata["namespace"] = release.namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), MANAGED_BY: HELM}
    told = {RELEASE_NAME: release.name, RELEASE_NAMESPACE: release.namespace}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **told}
    return {**obj, "metadata": metadata}


class HelmOwner(t.NamedTuple):
    """The release that an object says it belongs to."""

    name: str
    namespace: str


def owner_of(live: Object) -> HelmOwner | None:
    """The release that has an object, by what helm writes on it; None when it has nothing to do with helm."""
    notes = value_at(live, ("metadata", "annotations")) or {}
    if value_at(live, ("metadata", "labels", MANAGED_BY)) != HELM or not notes.get(RELEASE_NAME):
        return None
    return HelmOwner(notes[RELEASE_NAME], notes.get(RELEASE_NAMESPACE) or "")


def owner_in_words(live: Object) -> str:
    """Whose an object is that is not ours, as far as it tells."""
    owner = owner_of(live)
    if owner is not None:
        return f"the helm release {owner.namespace}/{owner.name}"
    manager = value_at(live, ("metadata", "labels", MANAGED_BY))
    if manager:
        return f"what is managed by {manager}"
    writers = [item.get("manager") for item in value_at(live, ("metadata", "managedFields")) or ()]
    return f"what {writers[0]} wrote" if writers and writers[0] else "nobody that it tells of"


def is_kept(obj: Object) -> bool:
    """Whether helm leaves an object behind when its release goes."""
    return str(value_at(obj, ("metadata", "annotations", POLICY_ANNOTATION)) or "").strip().lower() == "keep"


def is_helms_to_repair(obj: Object) -> bool:
    """Whether helm looks at the live object when it upgrades; of kinds it does not know it compares its own texts."""
    group, _kind = group_and_kind(obj)
    return "." not in group or group.endswith(".k8s.io")
