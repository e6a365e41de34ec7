# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which components a profile and a user's wishes come to, in which versions, in the form that the module takes."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.nearest import unknown_name
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem, SeveralProblems
from ansible_collections.muster.kube.plugins.module_utils._policy.component.catalogue_rows import (
    SOURCE_KEYS,
    CatalogueRow,
    RowChoice,
    RowVersion,
    StackCatalogue,
    check_source,
    read_choices,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.versions import (
    SemanticVersion,
    read_version,
)

# Lists of these are added up by features; a user's own list stands for the whole.
_ADDED_UP = ("resources", "depends_on", "definitions", "workloads", "webhooks", "labels")
# Texts with the version in them.
_ADDRESSES = ("chart", "src")
# What belongs to an address: it goes when another address is given.
_PARTS_OF_ADDRESSES = {
    "chart": ("repository", "digest", "chart_version"),
    "src": ("definition",),
    "definition": ("src",),
}
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclasses.dataclass(frozen=True, slots=True)
class ChosenComponent:
    """A row with all that was wanted of it."""

    row: CatalogueRow
    choice: RowChoice
    version: RowVersion

    def depends_on(self) -> list[str]:
        """The rows it comes after."""
        return list(dict.fromkeys(self._body().get("depends_on", ())))

    def as_options(self, present: Iterable[str]) -> Data:
        """The component as the module takes it; of what it depends on, only what is installed with it.

        What only preflight and the ladder's reader need is under one key of its own.
        """
        body = self._body()
        where = f"component {self.row.name}"
        check_source(body, where)
        taken = SOURCE_KEYS[body["source"]]
        for key in self.choice.body:
            if key not in taken and any(key in keys for keys in SOURCE_KEYS.values()):
                takers = [source for source, keys in SOURCE_KEYS.items() if key in keys]
                cause = f"its source is {body['source']}; only {' and '.join(takers)} takes this"
                raise BadInput("read", f"{where}: {key}", cause)
        others = {key for keys in SOURCE_KEYS.values() for key in keys} - set(taken)
        options = {key: value for key, value in body.items() if key not in others and key != "expects"}
        for key in _ADDRESSES:
            if key in options:
                options[key] = self._filled_in(options[key], f"{where}: {key}")
        if body["source"] == "helm":
            options.setdefault("chart_version", self.version.chart_version)
        if "olm" in options:
            options["olm"] = {
                key: self._filled_in(value, f"{where}: olm: {key}") if isinstance(value, str) else value
                for key, value in options["olm"].items()
            }
        within = [name for name in self.depends_on() if name in set(present)]
        return {
            "name": self.row.name,
            "version": self.version.text,
            **options,
            "depends_on": within,
            "row": self._knowledge(body),
        }

    def _body(self) -> Data:
        """The row, then its version, then features, then what the user wrote."""
        body = _over_row(self.row.body, self.version.body)
        for name, parameters in self.choice.features.items():
            feature = self.row.features[name]
            body = _over_row(body, with_parameters(feature.body, {**feature.parameters, **parameters}), add=True)
        return _over_row(body, self.choice.body)

    def _filled_in(self, text: str, where: str) -> str:
        """An address or the like with the version in it."""
        known = {"version": self.version.text, "chart_version": self.version.chart_version}

        def value(found: re.Match[str]) -> str:
            """What stands for a placeholder."""
            if found[1] not in known:
                raise BadInput(
                    "read", where, f"{found[0]} stands for nothing; known are {{version}}, {{chart_version}}"
                )
            return known[found[1]]

        return _PLACEHOLDER.sub(value, text)

    def _knowledge(self, body: Mapping[str, t.Any]) -> Data:
        """What the catalogue knows of the component beside its options."""
        return {
            "title": self.row.title,
            "proof": self.row.proof,
            "kubernetes": str(self.version.kubernetes),
            "api_versions": list(self.version.api_versions),
            "features": list(self.choice.features),
            "reinvoke_beside": list(self.row.reinvoke_beside),
            "expects": body.get("expects", {}),
            "removal": self.row.removal,
        }


def choose_components(
    catalogue: StackCatalogue, profiles: Sequence[str], overrides: t.Any, kubernetes: str | None = None
) -> list[ChosenComponent]:
    """The components of profiles and wishes with all they depend on, each after what it depends on."""
    wanted: dict[str, RowChoice] = {}
    for name in profiles:
        if name not in catalogue.profiles:
            raise unknown_name("choose", "profile", name, catalogue.profiles)
        for row, choice in catalogue.profiles[name].choices.items():
            wanted[row] = _merged(wanted.get(row), choice)
    for row, choice in read_choices(overrides, catalogue.rows, "the wanted components").items():
        wanted[row] = _merged(wanted.get(row), choice)
    skipped = {name for name, choice in wanted.items() if choice.skip}
    server = None if kubernetes is None else read_version(kubernetes, "the version of Kubernetes").release
    solver = _Versions(catalogue, wanted, skipped, server)
    chosen = solver.solve()
    _check_exclusions(chosen)
    return chosen


def component_options(
    catalogue: StackCatalogue, profiles: Sequence[str], overrides: t.Any, kubernetes: str | None = None
) -> list[Data]:
    """The same as options of the module."""
    chosen = choose_components(catalogue, profiles, overrides, kubernetes)
    names = [item.row.name for item in chosen]
    return [item.as_options(names) for item in chosen]


def overlaid(base: Mapping[str, t.Any], over: Mapping[str, t.Any], *, add: bool = False) -> Data:
    """A mapping with another one laid over it, level by level; lists stand for the whole unless they are added up."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and key != "olm":
            # A condition of another form has no part of the one before.
            merged[key] = dict(value) if key in ("condition", "smoke") else overlaid(below, value, add=add)
        elif add and key in _ADDED_UP and isinstance(below, list) and isinstance(value, list):
            names = [_identity(item) for item in value]
            merged[key] = [item for item in below if _identity(item) not in names] + value
        else:
            merged[key] = value
    return merged


def _over_row(base: Mapping[str, t.Any], over: Mapping[str, t.Any], *, add: bool = False) -> Data:
    """A row with other words laid over it; with another address the parts of the old one go."""
    gone = {part for key in over for part in _PARTS_OF_ADDRESSES.get(key, ())}
    return overlaid({key: value for key, value in base.items() if key not in gone}, over, add=add)


def _identity(item: t.Any) -> t.Any:
    """What an entry of a list is known by: an object by kind and name, so that a feature can give it another form."""
    if not isinstance(item, Mapping):
        return item
    metadata = item.get("metadata", {})
    return item.get("apiVersion"), item.get("kind"), metadata.get("namespace"), metadata.get("name")


def with_parameters(value: t.Any, parameters: Mapping[str, t.Any]) -> t.Any:
    """A value with parameters in the places of their names in braces; a text that is only a name becomes its value."""
    if isinstance(value, Mapping):
        return {key: with_parameters(item, parameters) for key, item in value.items()}
    if isinstance(value, list):
        return [with_parameters(item, parameters) for item in value]
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    if whole is not None and whole[1] in parameters:
        return parameters[whole[1]]
    return _PLACEHOLDER.sub(lambda found: str(parameters.get(found[1], found[0])), value)


def _merged(before: RowChoice | None, choice: RowChoice) -> RowChoice:
    """A later wish laid over an earlier one."""
    if before is None:
        return choice
    return RowChoice(
        version=choice.version or before.version,
        features={
            name: {**before.features.get(name, {}), **choice.features.get(name, {})}
            for name in (*before.features, *choice.features)
        },
        skip=before.skip if choice.skip is None else choice.skip,
        body=overlaid(before.body, choice.body),
    )


class _Versions:
    """Chooses versions: what others depend on is chosen after them, within what they need."""

    def __init__(
        self,
        catalogue: StackCatalogue,
        wanted: Mapping[str, RowChoice],
        skipped: set[str],
        server: SemanticVersion | None,
    ) -> None:
        """Nothing is chosen yet."""
        self._rows = catalogue.rows
        self._wanted = wanted
        self._skipped = skipped
        self._server = server
        self._chosen: dict[str, ChosenComponent] = {}
        self._problems: list[Problem] = []

    def solve(self) -> list[ChosenComponent]:
        """All components, dependencies first; everything that is wrong is told at once."""
        order = self._ordered()
        for name in reversed(order):
            self._chosen[name] = self._choose(name)
        if self._problems:
            raise SeveralProblems("the components", self._problems)
        return [self._chosen[name] for name in order]

    def _ordered(self) -> list[str]:
        """The names of all components that are wanted or needed, each after what it depends on."""
        order: list[str] = []

        def visit(name: str, path: tuple[str, ...]) -> None:
            """Take in what a component depends on, then itself."""
            if name in path:
                circle = " → ".join((*path[path.index(name) :], name))
                raise BadInput("order", f"component {name}: depends_on", f"it is a cycle: {circle}")
            if name in order or name in self._skipped:
                return
            for other in self._needed(name):
                visit(other, (*path, name))
            order.append(name)

        for name in self._wanted:
            visit(name, ())
        return order

    def _needed(self, name: str) -> list[str]:
        """What a component depends on; that is the same in all of its versions."""
        row = self._rows[name]
        names = ChosenComponent(row, self._choice(name), row.versions[0]).depends_on()
        for other in names:
            if other not in self._rows:
                raise unknown_name("read", f"component {name}: depends_on:", other, self._rows)
        return names

    def _choice(self, name: str) -> RowChoice:
        return self._wanted.get(name, RowChoice())

    def _choose(self, name: str) -> ChosenComponent:
        """The first version in the table that nothing speaks against; if there is none, what does is noted."""
        row, choice = self._rows[name], self._choice(name)
        candidates: Sequence[RowVersion] = row.versions
        if choice.version is not None:
            pinned = read_version(choice.version, f"component {name}: version")
            candidates = [item for item in row.versions if item.version == pinned]
            if not candidates:
                known = ", ".join(item.text for item in row.versions)
                self._problems.append(
                    Problem(
                        f"component {name}", "version", f"nothing is known about {choice.version}; known are {known}"
                    )
                )
                return ChosenComponent(row, choice, row.versions[0])
        causes = [self._against(name, item) for item in candidates]
        # The version that least speaks against; the earlier in the table, the better.
        best = min(range(len(candidates)), key=lambda index: len(causes[index]))
        if causes[best]:
            self._problems.append(Problem(f"component {name} {candidates[best].text}", "", "; ".join(causes[best])))
        return ChosenComponent(row, choice, candidates[best])

    def _against(self, name: str, version: RowVersion) -> list[str]:
        """What speaks against a version: the server, and components that are chosen already."""
        causes = []
        if self._server is not None and not version.kubernetes.holds(self._server):
            causes.append(f"it needs Kubernetes {version.kubernetes}, the server has {self._server}")
        for other in self._chosen.values():
            causes += _disagreements(other, name, version)
            causes += [
                f"it {verb} {other.row.name} {bounds}, and {other.version.text} is chosen"
                for verb, ranges, good in (("needs", version.needs, True), ("excludes", version.excludes, False))
                for row, bounds in ranges.items()
                if row == other.row.name and bounds.holds(other.version.version) != good
            ]
        return causes


def _disagreements(other: ChosenComponent, name: str, version: RowVersion) -> list[str]:
    """What a chosen component has against a version of another one."""
    needs, excludes = other.version.needs.get(name), other.version.excludes.get(name)
    told = f"{other.row.name} {other.version.text}"
    found = []
    if needs is not None and not needs.holds(version.version):
        found.append(f"{told} needs {name} {needs}")
    if excludes is not None and excludes.holds(version.version):
        found.append(f"{told} excludes {name} {excludes}")
    return found


def _check_exclusions(chosen: Sequence[ChosenComponent]) -> None:
    """Refuse components that cannot be in one cluster, and features that cannot be on at once."""
    names = {item.row.name for item in chosen}
    for item in chosen:
        for other in item.row.excludes:
            if other in names:
                cause = f"{item.row.name} and {other} cannot be in one cluster; leave one of them out with skip"
                raise BadInput("choose", f"component {item.row.name}", cause)
        for name in item.choice.features:
            for other in item.row.features[name].excludes:
                if other in item.choice.features:
                    cause = f"the features {name} and {other} cannot be on at once"
                    raise BadInput("choose", f"component {item.row.name}", cause)
