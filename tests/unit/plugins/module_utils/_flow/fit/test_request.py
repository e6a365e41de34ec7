# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions as users write them: mappings, lists, texts, files."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource, read_gang, read_objects
from ansible_collections.muster.kube.plugins.module_utils._host import yaml_text
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import made_of
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary

ONE = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
TWO = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "two"}}
TEXT = "# a comment\n---\n" + json.dumps(ONE) + "\n---\n\n---\n" + json.dumps(TWO) + "\n"


@pytest.mark.parametrize(
    "definition",
    [
        [ONE, TWO],
        TEXT,
        [json.dumps(ONE), TWO],
        [TEXT],
        json.dumps([ONE, TWO]),
        (f"- {json.dumps(ONE)}\n- {json.dumps(TWO)}"),
    ],
)
def test_every_form_gives_the_same_objects(definition):
    assert read_objects(definition, None, "gang 0") == (ONE, TWO)


def test_one_mapping_is_one_object_and_a_copy():
    (read,) = read_objects(ONE, None, "gang 0")
    assert read == ONE
    assert read is not ONE


def test_files(tmp_path):
    path = tmp_path / "gang.yml"
    path.write_text(TEXT, encoding="utf-8")
    assert read_objects(None, str(path), "gang 0") == (ONE, TWO)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"a: [", b"just words"])
def test_files_that_cannot_be_read_are_named(tmp_path, content):
    path = tmp_path / "gang.yml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=r"Cannot read gang 0: src .*gang\.yml: "):
        read_objects(None, str(path), "gang 0")


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ("just words", "an object is a mapping, this is a str"),
        (["just words"], "an object is a mapping, this is a str"),
        ("a: [", "it is not YAML"),
        (5, "an object is a mapping, this is a int"),
        ([ONE, 5], "an object is a mapping, this is a int"),
        ([[[ONE]]], "an object is a mapping, this is a list"),
        ({"kind": "Pod", "metadata": "one"}, "gang 0: definition: Pod: metadata: a mapping is needed, this is a str"),
        ({"metadata": ["one"]}, "gang 0: definition: object: metadata: a mapping is needed, this is a list"),
    ],
)
def test_what_is_no_object_is_refused(definition, words):
    with pytest.raises(BadInput, match="gang 0") as caught:
        read_objects(definition, None, "gang 0")
    assert words in str(caught.value)


def test_a_missing_yaml_library_is_told(monkeypatch):
    monkeypatch.setattr(yaml_text, "YAML_IMPORT_ERROR", "Traceback")
    with pytest.raises(MissingLibrary):
        read_objects(TEXT, None, "gang 0")
    assert read_objects(ONE, None, "gang 0") == (ONE,)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"definition": ONE}, ("one", "default")),
        ({"definition": ONE, "name": "mine", "namespace": "team"}, ("mine", "team")),
        ({"definition": {**ONE, "metadata": {"name": "one", "namespace": "own"}}}, ("one", "own")),
        ({"definition": {"kind": "Job", "metadata": {"generateName": "train-"}}}, ("train", "default")),
        ({"definition": {"kind": "Job", "metadata": {"generateName": None}}}, ("job", "default")),
        ({"definition": {"kind": "Job", "metadata": None}}, ("job", "default")),
        ({"definition": {}}, ("gang", "default")),
        ({"podsets": ({"count": 1},)}, ("gang-3", "default")),
    ],
)
def test_names_and_namespaces_have_defaults(raw, expected):
    found = read_gang(GangSource(**raw), 3)
    assert (found.name, found.namespace) == expected


@pytest.mark.parametrize("wrap", [lambda item: item, lambda item: {"kind": "List", "items": [ONE, item]}])
def test_objects_of_another_namespace_are_refused(wrap):
    stray = {"kind": "Pod", "metadata": {"name": "stray", "namespace": "elsewhere"}}
    with pytest.raises(BadInput, match="Pod stray lies in namespace elsewhere, the gang in team"):
        read_gang(GangSource(namespace="team", definition=wrap(stray)), 0)


@pytest.mark.parametrize(
    "raw", [{}, {"definition": None, "src": None, "podsets": None}, {"definition": ""}, {"definition": []}]
)
def test_an_empty_gang_is_refused(raw):
    with pytest.raises(BadInput, match="gang 7: it is empty: give definition, src or podsets"):
        read_gang(GangSource(**raw), 7)


def test_podsets_are_kept_beside_objects():
    found = read_gang(GangSource(definition=ONE, podsets=({"count": 1},)), 0)
    assert (found.objects, found.podsets) == ((ONE,), ({"count": 1},))


def test_own_claims_are_found_in_lists_too():
    claims = [{"kind": "PersistentVolumeClaim", "metadata": {"name": name}} for name in ("a", "b")]
    nested = {"kind": "List", "items": [claims[1], {"kind": "List", "items": None}]}
    assert made_of([claims[0], ONE, nested]).claim_names == {"a", "b"}


@pytest.mark.parametrize("items", [5, "text", {"a": 1}])
def test_the_items_of_a_list_are_a_list(items):
    with pytest.raises(BadInput, match="Cannot read List: items: a list is needed"):
        read_gang(GangSource(definition={"kind": "List", "items": items}), 0)
