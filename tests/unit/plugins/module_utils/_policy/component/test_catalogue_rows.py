# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of the catalogue are read strictly."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.component.catalogue_rows import (
    read_catalogue,
    read_choices,
)
from ansible_collections.muster.kube.tests.support.stack_catalogue import (
    SMALL,
    row,
    shipped_catalogue,
    small_catalogue,
    versions,
)

ROWS = read_catalogue(SMALL).rows


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("components", 0, "chrat"), "x", "component gears: chrat: unknown key; did you mean chart?"),
        (("components", 1, "features", "alarm", "titel"), "x", "did you mean title?"),
        (("components", 0, "source"), "hlem", "'hlem' is none of helm, manifest, kustomize, olm"),
        (("components", 0, "source"), None, "component gears: source: it is missing"),
        (("components", 0, "chart"), None, "component gears: chart: it is missing, and a helm needs it"),
        (("components", 1, "src"), None, "component watch: src or definition: it is missing"),
        (("components", 0, "digest"), "sha256:12", "is no digest"),
        (("components", 0, "proof"), "seen", "'seen' is none of run, installed, played, none"),
        (("components", 0, "title"), "", "title: a text is needed"),
        (("components", 0, "name"), "Gears", "'Gears' cannot be the name of a component"),
        (("components", 0, "name"), None, "component 0 of the catalogue: name: it is missing"),
        (("components", 0, "name"), "bell", "component bell: the catalogue has it twice"),
        (
            ("components", 1, "depends_on"),
            ["gear"],
            "component watch: depends_on: gear: there is no such component; did you mean gears?",
        ),
        (("components", 1, "depends_on"), ["watch"], "it names itself"),
        (("components", 1, "excludes"), ["moon"], "there is no such component"),
        (("components", 1, "reinvoke_beside"), ["bel"], "did you mean bell?"),
        (("components", 1, "features", "alarm", "excludes"), ["silence"], "did you mean silent?"),
        (("components", 1, "features", "alarm", "depends_on"), ["bells"], "did you mean bell?"),
        (("components", 1, "features", "alarm", "parameters"), {"No": 1}, "'No' is no name"),
        (("components", 1, "namespace"), "a.b", "cannot be a namespace"),
        (("components", 1, "resources"), [{"kind": "ConfigMap"}], "resources[0]: apiVersion: it is missing"),
        (("components", 1, "resources"), [{"apiVersion": "v1", "kind": "X"}], "resources[0]: metadata: it is missing"),
        (("components", 1, "smoke"), {"definition": []}, "component watch: smoke: definition: it is missing"),
        (("components", 1, "expects"), {"workload": []}, "did you mean workloads?"),
        (("components", 1, "nodes"), {"labels": [1]}, "labels[0]: a text is needed, not 1"),
        (("components", 1, "removal"), {"first": "x"}, "a list is needed"),
        (
            ("components", 1, "condition"),
            {"api_version": "v1", "kind": "K", "name": "n"},
            "type (and status) or path and value",
        ),
        (
            ("components", 1, "condition"),
            {"api_version": "v1", "kind": "K", "name": "n", "path": "a"},
            "belong together",
        ),
        (("components", 1, "olm"), {"chanel": "x"}, "did you mean channel?"),
        (("components", 1, "values"), [], "a mapping is needed"),
        (("components",), {}, "the catalogue: components: a list is needed"),
        (("component",), [], "did you mean components?"),
        (
            ("versions", "bells"),
            versions("1.0.0"),
            "the table of versions: bells: there is no such component; did you mean bell?",
        ),
        (("versions", "bell"), [], "the versions of bell: the table of versions has none"),
        (("versions", "bell"), versions("1.0.0", "v1.0.0"), "v1.0.0 is there twice"),
        (("versions", "bell"), versions("latest"), "'latest' is no version"),
        (("versions", "bell"), [{"version": "1.0.0"}], "kubernetes: it is missing"),
        (("versions", "bell"), versions("1.0.0", kubernetes="1.29+"), "'1.29+' is no version"),
        (("versions", "bell"), [{"version": 1.36, "kubernetes": "*"}], "version: a text is needed, not 1.36"),
        (("versions", "bell"), versions("1.0.0", need={}), "did you mean needs?"),
        (("versions", "bell"), versions("1.0.0", needs={"gear": "*"}), "did you mean gears?"),
        (("versions", "bell"), versions("1.0.0", **{"with": {"sorce": "helm"}}), "did you mean source?"),
        (("versions", "bell"), versions("1.0.0", **{"with": {"depends_on": ["gears"]}}), "depends_on: unknown key"),
        (
            ("profiles", "old", "components"),
            {"sundail": None},
            "profile old: sundail: there is no such component; did you mean sundial?",
        ),
        (("profiles", "old", "components"), {}, "profile old: components: it is empty"),
        (("profiles", "old", "includes"), [], "profile old: includes: unknown key"),
    ],
)
def test_what_is_not_known_is_refused_with_its_place(path: tuple[t.Any, ...], value: t.Any, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_catalogue(small_catalogue(*path, to=value))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"gaers": {}}, "the wishes: gaers: there is no such component; did you mean gears?"),
        ({"gears": {"vesion": "1"}}, "the wishes: gears: vesion: unknown key; did you mean version?"),
        ({"watch": {"features": ["alram"]}}, "alram: unknown key; did you mean alarm?"),
        ({"watch": {"features": {"alarm": {"hours": 3}}}}, "hours: unknown key; did you mean hour?"),
        ({"watch": {"features": "alarm"}}, "a mapping is needed"),
        ({"watch": {"skip": "yes"}}, "true or false is needed"),
        ({"watch": {"proof": "run"}}, "proof: unknown key"),
        ({"watch": []}, "a mapping is needed"),
        ([], "a mapping is needed"),
    ],
)
def test_wishes_are_read_as_strictly(wanted: t.Any, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_choices(wanted, ROWS, "the wishes")
    assert told in str(caught.value)


def test_no_wish_is_no_choice() -> None:
    assert read_choices(None, ROWS, "the wishes") == {}


def test_a_wish_without_words_is_the_row_as_it_is() -> None:
    (choice,) = read_choices({"gears": None}, ROWS, "the wishes").values()
    assert (choice.version, choice.features, choice.skip, choice.body) == (None, {}, None, {})


def test_a_row_without_versions_is_refused() -> None:
    with pytest.raises(BadInput, match="the versions of moon: the table of versions has none"):
        read_catalogue({"components": [row("moon")]})


def test_the_shipped_catalogue_is_read() -> None:
    found = read_catalogue(shipped_catalogue())
    assert {"gang", "amd_resource_manager", "training", "inspection", "rhoai"} == set(found.profiles)
    assert len(found.rows) == 22
