# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue of components in the form in which it is read, and a small one to try rules on."""

from __future__ import annotations

import copy
import pathlib
import typing as t

import yaml

FILES = pathlib.Path(__file__).resolve().parents[2] / "roles/operator_stack/files"

Data = dict[str, t.Any]


def shipped_catalogue() -> Data:
    """The one of the role."""
    return {
        "components": [yaml.safe_load(path.read_text()) for path in sorted((FILES / "components").glob("*.yml"))],
        "versions": yaml.safe_load((FILES / "versions.yml").read_text()),
        "profiles": yaml.safe_load((FILES / "profiles.yml").read_text()),
    }


def row(name: str, **more: t.Any) -> Data:
    """A row with as little as there can be."""
    return {"name": name, "title": f"The {name}", "proof": "none", "source": "manifest", "src": f"{name}.yml", **more}


def versions(*texts: str, **more: t.Any) -> list[Data]:
    """Lines of the table of versions, the same but for their numbers."""
    return [{"version": text, "kubernetes": ">=1.29", **more} for text in texts]


SMALL: Data = {
    "components": [
        row(
            "gears",
            source="helm",
            src=None,
            chart="gears-{version}",
            repository="https://charts.example",
            digest="sha256:" + "0" * 64,
            values={"a": {"b": 1, "c": [1]}},
        ),
        row(
            "watch",
            depends_on=["gears"],
            namespace="time",
            excludes=["sundial"],
            resources=[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dial"}, "data": {"hands": "2"}}],
            features={
                "alarm": {
                    "title": "Rings",
                    "excludes": ["silent"],
                    "parameters": {"hour": 7, "tones": ["a"]},
                    "depends_on": ["bell"],
                    "nodes": {"labels": ["alarm={hour}"]},
                    "resources": [
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "alarm"}, "data": "{tones}"},
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dial"}, "data": {"hands": "3"}},
                    ],
                },
                "silent": {"title": "Does not"},
            },
        ),
        row("bell", src="https://example.com/{version}/bell.yml"),
        row("sundial"),
    ],
    "versions": {
        "gears": [*versions("3.0.0", chart_version="30"), *versions("2.1.0", "2.0.0", kubernetes=">=1.25")],
        "watch": versions("1.0.0", needs={"gears": ">=2 <3"}),
        "bell": versions("0.1.0"),
        "sundial": versions("9.0.0"),
    },
    "profiles": {
        "pocket": {"title": "To carry", "components": {"watch": None}},
        "loud": {"title": "To wake up", "components": {"watch": {"features": ["alarm"]}}},
        "old": {"title": "Without springs", "components": {"sundial": {}}},
    },
}


def small_catalogue(*path: t.Any, to: t.Any = None) -> Data:
    """The small catalogue, with one thing changed in it."""
    made: t.Any = copy.deepcopy(SMALL)
    part = made
    for step in path[:-1]:
        part = part[step]
    if path:
        part[path[-1]] = to
    return t.cast(Data, made)
