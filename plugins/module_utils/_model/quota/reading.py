# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a quota tree strictly, declared by a user or stored; everything that is wrong is told at once."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import (
    BadTree,
    capacity_problems,
    membership_problems,
    queue_problems,
    shape_problems,
    written_path,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    BACKENDS,
    COUNTING,
    FAIRS,
    NO_FLAVOR,
    OVER_CAPACITIES,
    PERIODS,
    RECLAIMS,
    STOPS,
    Backend,
    FlavorResource,
    QueueBudget,
    QuotaFlavor,
    QuotaQueue,
    QuotaSettings,
    QuotaTree,
    UserLimits,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    DNS_NAME,
    INT32,
    LABEL_LENGTH,
    Data,
    Fields,
    plain_value,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Attempts, Problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO, parse_quantity, scaled

TREE_FORMAT = 1

_Value = t.TypeVar("_Value")

TREE_KEYS = ("queues", "flavors", "settings", "over_capacity", "backends", "label", "priorities")
QUEUE_KEYS = (
    "name",
    "parent",
    "nominal",
    "extra",
    "capacity",
    "borrowing_limit",
    "lending_limit",
    "hard",
    "weight",
    "priority_cap",
    "namespaces",
    "selector",
    "default",
    "reclaim",
    "user_limits",
    "budget",
    "stop",
    "note",
)
FLAVOR_KEYS = ("name", "node_labels", "tolerations")
SETTING_KEYS = ("fair", "half_life", "min_run_time", "nominate_timeout", "max_evictions", "prices")
NESTED_KEYS = {"user_limits": ("running", "pending", "resources"), "budget": ("hours", "period")}
_TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")
_SELECTOR_KEYS = ("matchLabels", "matchExpressions")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

# A queue's name is the value of a label.
_QUEUE_NAME = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
# Resources and labels are named alike.
_QUALIFIED_NAME = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_MOST = 10**30
# What stands in for a part that could not be read.
_NO_DATA: Mapping[str, t.Any] = {}
_NO_AMOUNTS: dict[str, int] = {}


def read_tree(name: str, declaration: t.Any, *, stored: bool = False) -> QuotaTree:
    """The tree of this name from plain values; BadTree tells everything that is wrong with it.

    An unknown key of a user is a mistake; one of a stored tree is a later version's and is kept.
    """
    return _TreeReading(name, stored).read(declaration)


class _TreeReading:
    """One reading of a tree, with the problems found so far."""

    def __init__(self, name: str, stored: bool) -> None:
        """Take the name of the tree, and whether it comes from the cluster."""
        self._name = name
        self._stored = stored
        self._attempts = Attempts()
        self._problems = self._attempts.problems

    def read(self, declaration: t.Any) -> QuotaTree:
        """The whole tree; what is wrong with single queues does not keep the others from being read."""
        fields = Fields(plain_value(declaration, f"quota tree {self._name}"), f"quota tree {self._name}")
        if self._stored:
            fields.require_format(TREE_FORMAT)
        fields.where = "tree"
        self._check_name()
        self._only("tree", fields, TREE_KEYS)
        flavors = self._flavors(self._attempts.read("tree", fields, lambda f: f.sequence("flavors"), []))
        entries = self._entries(self._attempts.read("tree", fields, lambda f: f.sequence("queues"), []))
        parents = [(entry.data["name"], entry.data.get("parent")) for entry in entries]
        self._problems += shape_problems(parents)
        shaped = not self._problems
        known = dict(parents)
        flavor_names = tuple(flavor.name for flavor in flavors) or (NO_FLAVOR,)
        queues = [self._queue(entry, written_path(entry.data["name"], known), flavor_names) for entry in entries]
        inner = {parent for _name, parent in parents}
        for queue in queues:
            path = written_path(queue.name, known)
            self._problems += queue_problems(queue, path, queue.name in inner, flavor_names)
        tree = QuotaTree(
            name=self._name,
            queues=tuple(sorted(queues, key=lambda queue: written_path(queue.name, known).split("/"))),
            flavors=tuple(flavors),
            settings=self._settings(fields, flavor_names),
            over_capacity=self._attempts.read(
                "tree", fields, lambda f: f.choice("over_capacity", OVER_CAPACITIES, "refuse"), "refuse"
            ),
            backends=self._attempts.read("tree", fields, _backends, ("embedded",)),
            label=self._attempts.read("tree", fields, _label, None),
            priorities=self._attempts.read("tree", fields, _priorities, {}),
            unknown=fields.unknown((*TREE_KEYS, "format")),
        )
        if shaped:
            self._problems += membership_problems(tree)
            self._problems += capacity_problems(tree) if tree.over_capacity == "refuse" else ()
        if self._problems:
            raise BadTree(self._name, self._problems)
        return tree

    def _check_name(self) -> None:
        """The name is part of a ConfigMap's name, and that of a label on records."""
        if len(self._name) > LABEL_LENGTH or "." in self._name or not DNS_NAME.fullmatch(self._name):
            cause = f"{self._name!r} cannot be part of a ConfigMap's name and a label: at most 63 lower case letters, "
            self._problems.append(Problem("tree", "", cause + "digits and '-'"))

    def _only(self, where: str, fields: Fields, known: Sequence[str]) -> None:
        """Note unknown keys of a user."""
        if not self._stored:
            self._attempts.read(where, fields, lambda f: f.only(known), None)

    def _entries(self, items: Sequence[t.Any]) -> list[Fields]:
        """The queues that have a name and perhaps a parent; the others are noted by their place in the list."""
        entries = []
        for index, item in enumerate(items):
            where = f"queues[{index}]"
            if not isinstance(item, Mapping):
                self._problems.append(Problem(where, "", f"a mapping is needed, this is a {type(item).__name__}"))
                continue
            fields = Fields(item, where)
            name = self._attempts.read(where, fields, lambda f: f.required_text("name"), None)
            parent = self._attempts.read(where, fields, lambda f: f.text("parent"), None)
            if name is None:
                continue
            if not _QUEUE_NAME.fullmatch(name):
                cause = f"{name!r} cannot be the value of a label: at most 63 letters, digits, '-', '_' and '.'"
                self._problems.append(Problem(where, "name", cause))
            entries.append(Fields({**item, "name": name, "parent": parent}, where))
        return entries

    def _queue(self, entry: Fields, path: str, flavors: Sequence[str]) -> QuotaQueue:
        """One queue, named by its path in complaints."""
        fields = Fields(entry.data, path)
        self._only(path, fields, QUEUE_KEYS)
        for key, known in NESTED_KEYS.items():
            if isinstance(nested := fields.get(key), Mapping):
                self._only(path, Fields(nested, f"{path}: {key}"), known)
        return QuotaQueue(
            name=entry.data["name"],
            parent=entry.data["parent"],
            nominal=self._amounts(fields, "nominal", flavors),
            extra=self._amounts(fields, "extra", flavors),
            capacity=self._amounts(fields, "capacity", flavors),
            borrowing_limit=self._amounts(fields, "borrowing_limit", flavors),
            lending_limit=self._amounts(fields, "lending_limit", flavors),
            hard=self._attempts.read(path, fields, lambda f: f.flag("hard"), False),
            weight=self._attempts.read(path, fields, _weight, Fraction(1)),
            priority_cap=self._attempts.read(path, fields, _priority_cap, None),
            namespaces=self._attempts.read(path, fields, _namespaces, ()),
            selector=self._attempts.read(path, fields, _selector, None),
            default=self._attempts.read(path, fields, lambda f: f.flag("default"), False),
            reclaim=self._attempts.read(path, fields, lambda f: f.choice("reclaim", RECLAIMS, "any"), "any"),
            user_limits=self._attempts.read(path, fields, _user_limits, UserLimits()),
            budget=self._attempts.read(path, fields, _budget, None),
            stop=self._attempts.read(path, fields, lambda f: f.choice("stop", STOPS, "none"), "none"),
            note=self._attempts.read(path, fields, lambda f: f.text("note"), None) or "",
            unknown=_unknown(fields, QUEUE_KEYS),
        )

    def _amounts(self, fields: Fields, key: str, flavors: Sequence[str]) -> dict[FlavorResource, int]:
        """Amounts by resource, or by flavor and resource; in a tree of one flavor it need not be named."""
        usual = flavors[0] if len(flavors) == 1 else NO_FLAVOR
        found: dict[FlavorResource, int] = {}
        path = fields.where
        for name, value in self._attempts.read(path, fields, lambda f: f.mapping(key), _NO_DATA).items():
            if isinstance(value, Mapping):
                entry, flavor = Fields(value, f"{path}: {key}.{name}"), name
            else:
                entry, flavor = Fields({name: value}, f"{path}: {key}"), usual
            read = self._attempts.read(path, entry, _amounts_by_resource, _NO_AMOUNTS)
            found |= {FlavorResource(flavor, resource): amount for resource, amount in read.items()}
        return found

    def _flavors(self, items: Sequence[t.Any]) -> list[QuotaFlavor]:
        """The flavors in their order; each name once."""
        found: list[QuotaFlavor] = []
        for index, item in enumerate(items):
            where = f"flavors[{index}]"
            if not isinstance(item, Mapping):
                self._problems.append(Problem(where, "", f"a mapping is needed, this is a {type(item).__name__}"))
                continue
            fields = Fields(item, where)
            self._only(where, fields, FLAVOR_KEYS)
            flavor = self._attempts.read(where, fields, _flavor, None)
            if flavor is None:
                continue
            if any(flavor.name == other.name for other in found):
                self._problems.append(Problem(where, "name", f"there is a flavor {flavor.name} already"))
                continue
            found.append(flavor)
        return found

    def _settings(self, tree: Fields, flavors: Sequence[str]) -> QuotaSettings:
        """The settings with their defaults."""
        raw = self._attempts.read("tree", tree, lambda f: f.mapping("settings"), _NO_DATA)
        where, usual = "settings", QuotaSettings()
        fields = Fields(raw, where)
        self._only(where, fields, SETTING_KEYS)
        most = usual.max_evictions
        if fields.get("max_evictions") is not None:
            most = self._attempts.read(where, fields, lambda f: f.whole("max_evictions", 0, INT32 - 1), most)
        return QuotaSettings(
            fair=self._attempts.read(where, fields, lambda f: f.choice("fair", FAIRS, usual.fair), usual.fair),
            half_life=self._attempts.read(where, fields, lambda f: _half_life(f, usual), usual.half_life),
            min_run_time=self._attempts.read(
                where, fields, lambda f: f.duration("min_run_time", usual.min_run_time), usual.min_run_time
            ),
            nominate_timeout=self._attempts.read(
                where, fields, lambda f: f.duration("nominate_timeout", usual.nominate_timeout), usual.nominate_timeout
            ),
            max_evictions=most,
            prices=self._attempts.read(where, fields, lambda f: _prices(f, flavors), {}),
            unknown=fields.unknown(SETTING_KEYS),
        )


def _unknown(fields: Fields, known: Sequence[str]) -> Data:
    """The keys of a later version, here and in the mappings below."""
    found = fields.unknown(known)
    for key, names in NESTED_KEYS.items():
        value = fields.get(key)
        nested = Fields(value, key).unknown(names) if isinstance(value, Mapping) else {}
        if nested:
            found[key] = nested
    return found


def _backends(fields: Fields) -> tuple[Backend, ...]:
    """Who is told of the tree, in a fixed order: exactly one that counts, and perhaps ceilings."""
    given = fields.sequence("backends")
    unknown = [word for word in given if word not in BACKENDS]
    if unknown:
        raise fields.fail("backends", f"{unknown[0]!r} is none of {', '.join(BACKENDS)}")
    found = tuple(backend for backend in BACKENDS if backend in given) if given else ("embedded",)
    counting = [backend for backend in COUNTING if backend in found]
    if len(counting) > 1:
        raise fields.fail("backends", f"{' and '.join(counting)} would each hand out the whole tree; choose one")
    if not counting:
        raise fields.fail("backends", f"{', '.join(found)} only sets ceilings; add embedded or kueue, which counts")
    return found


def _label(fields: Fields) -> str | None:
    """The label by which gangs name their queue; None means the tree's name."""
    label = fields.text("label")
    if label is not None and not _QUALIFIED_NAME.fullmatch(label):
        raise fields.fail("label", f"{label!r} cannot be the name of a label")
    return label


def _priorities(fields: Fields) -> dict[str, int]:
    """Priorities by their names."""
    entry = Fields(fields.mapping("priorities"), f"{fields.where}: priorities")
    for name in entry.data:
        if not isinstance(name, str) or len(name) > LABEL_LENGTH or not DNS_NAME.fullmatch(name):
            raise entry.fail(str(name), "this cannot be the name of an object: lower case letters, digits, '-' and '.'")
    return {name: entry.whole(name, -INT32, INT32 - 1, required=True) for name in entry.data}


def _resource(fields: Fields, name: str) -> str:
    """The name of a resource."""
    if not _QUALIFIED_NAME.fullmatch(name):
        raise fields.fail(name, "this is no name of a resource")
    return name


def _amount(fields: Fields, resource: str) -> int:
    """One scaled amount, zero or more."""
    _resource(fields, resource)
    try:
        amount = scaled(resource, parse_quantity(fields.data[resource]))
    except BadInput as error:
        raise fields.fail(resource, f"{error.target}: {error.cause}") from error
    if not 0 <= amount < _MOST:
        raise fields.fail(
            resource, f"quantity {fields.data[resource]!r} is {'negative' if amount < 0 else 'too large'}"
        )
    return amount


def _decimal(fields: Fields, key: str) -> Fraction:
    """A number that is not negative, exactly as it was written."""
    value = fields.get(key)
    try:
        number = Fraction(parse_quantity(value), NANO)
    except BadInput as error:
        raise fields.fail(key, error.cause) from error
    if not 0 <= number < _MOST:
        raise fields.fail(key, f"a number that is not negative is needed, not {value!r}")
    return number


def _weight(fields: Fields) -> Fraction:
    """The weight between siblings; 1 when missing."""
    return Fraction(1) if fields.get("weight") is None else _decimal(fields, "weight")


def _priority_cap(fields: Fields) -> int | None:
    """The highest priority that gangs of the queue get; None without one."""
    if fields.get("priority_cap") is None:
        return None
    return fields.whole("priority_cap", -INT32, INT32 - 1)


def _namespaces(fields: Fields) -> tuple[str, ...]:
    """Names of namespaces, sorted, each once."""
    names = fields.sequence("namespaces")
    for index, name in enumerate(names):
        if not isinstance(name, str) or len(name) > LABEL_LENGTH or "." in name or not DNS_NAME.fullmatch(name):
            raise fields.fail(f"namespaces[{index}]", f"{name!r} is no name of a namespace")
    return tuple(sorted(set(names)))


def _selector(fields: Fields) -> Data | None:
    """A selector of namespaces as Kubernetes writes it."""
    if fields.get("selector") is None:
        return None
    entry = Fields(fields.mapping("selector"), f"{fields.where}: selector")
    entry.only(_SELECTOR_KEYS)
    for name, value in entry.mapping("matchLabels").items():
        if not isinstance(value, str):
            raise entry.fail(f"matchLabels.{name}", f"a text is needed, not {value!r}; quote it")
    for index, item in enumerate(entry.sequence("matchExpressions")):
        _expression(Fields(item, f"{entry.where}: matchExpressions[{index}]"))
    return dict(entry.data)


def _expression(fields: Fields) -> None:
    """One expression of a selector."""
    fields.only(("key", "operator", "values"))
    fields.required_text("key")
    operator = fields.choice("operator", _OPERATORS, None)
    values = fields.sequence("values")
    if any(not isinstance(value, str) for value in values):
        raise fields.fail("values", "texts are needed; quote them")
    if bool(values) != (operator in ("In", "NotIn")):
        raise fields.fail("values", "In and NotIn need values, the others have none")


def _amounts_by_resource(fields: Fields) -> dict[str, int]:
    """Scaled amounts by resource alone."""
    return {name: _amount(fields, name) for name in fields.data}


def _resource_amounts(fields: Fields, key: str) -> dict[str, int]:
    return _amounts_by_resource(Fields(fields.mapping(key), f"{fields.where}: {key}"))


def _user_limits(fields: Fields) -> UserLimits:
    """What one user may have in the queue."""
    entry = Fields(fields.mapping("user_limits"), f"{fields.where}: user_limits")
    counts = {key: None if entry.get(key) is None else entry.whole(key, 0, INT32 - 1) for key in ("running", "pending")}
    return UserLimits(**counts, resources=_resource_amounts(entry, "resources"))


def _budget(fields: Fields) -> QueueBudget | None:
    """Resource-hours of a period."""
    if fields.get("budget") is None:
        return None
    entry = Fields(fields.mapping("budget"), f"{fields.where}: budget")
    hours = _resource_amounts(entry, "hours")
    if not hours:
        raise entry.fail("hours", "say how many hours of which resource, such as nvidia.com/gpu: 1000")
    return QueueBudget(hours, entry.choice("period", PERIODS, "month"))


def _half_life(fields: Fields, usual: QuotaSettings) -> float:
    """The time after which used resources count half; it needs a fairness that looks at use."""
    half_life = fields.duration("half_life", usual.half_life)
    if half_life <= 0:
        raise fields.fail("half_life", "it must be longer than nothing")
    return half_life


def _prices(fields: Fields, flavors: Sequence[str]) -> dict[FlavorResource, Fraction]:
    """Prices by resource (then of every flavor), or by flavor and resource, which wins."""
    general: dict[FlavorResource, Fraction] = {}
    special: dict[FlavorResource, Fraction] = {}
    entry = Fields(fields.mapping("prices"), f"{fields.where}: prices")
    for name, value in entry.data.items():
        if isinstance(value, Mapping):
            if name not in flavors:
                raise entry.fail(name, f"flavor {name!r} is not declared")
            nested = Fields(value, f"{entry.where}.{name}")
            special |= {FlavorResource(name, _resource(nested, key)): _decimal(nested, key) for key in value}
        else:
            price = _decimal(entry, _resource(entry, name))
            general |= {FlavorResource(flavor, name): price for flavor in flavors}
    return {**general, **special}


def _flavor(fields: Fields) -> QuotaFlavor:
    """One kind of nodes."""
    name = fields.dns("name", "the name of a flavor", LABEL_LENGTH)
    labels = fields.mapping("node_labels")
    for key, value in labels.items():
        if not isinstance(value, str):
            raise fields.fail(f"node_labels.{key}", f"a text is needed, not {value!r}; quote it")
    tolerations = fields.sequence("tolerations")
    for index, item in enumerate(tolerations):
        entry = Fields(item, f"{fields.where}: tolerations[{index}]")
        entry.only(_TOLERATION_KEYS)
        entry.choice("operator", ("Equal", "Exists"), "Equal")
    return QuotaFlavor(name, dict(labels), tuple(dict(item) for item in tolerations), fields.unknown(FLAVOR_KEYS))
