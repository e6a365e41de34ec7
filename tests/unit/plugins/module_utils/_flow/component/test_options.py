# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definitions of a component as a task gives them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import (
    ComponentOptions,
    namespaces_of,
    read_definitions,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import versionless_key
from ansible_collections.muster.kube.tests.support.component_stage import config_map, namespace, widget_crd


def read(definition=None, **options):
    return read_definitions(ComponentOptions(**{"name": "c", "state": "present", "definition": definition, **options}))


def test_objects_come_as_mappings_lists_texts_and_files(tmp_path):
    one, other = config_map("a"), config_map("b")
    path = tmp_path / "objects.yaml"
    path.write_text(json.dumps(one) + "\n---\n" + json.dumps(other), encoding="utf-8")
    for definition in ([one, other], {"kind": "List", "items": [one, other]}, path.read_text(encoding="utf-8")):
        assert read(definition) == [one, other]
    assert read(src=str(path)) == [one, other]


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a/b", "a" * 64])
def test_a_name_must_be_the_value_of_a_label(name):
    with pytest.raises(BadInput, match="Cannot use the name "):
        read(config_map("a"), name=name)


@pytest.mark.parametrize("name", ["a", "team-a.Readers_1", "a" * 63])
def test_names_may_be_as_long_as_labels(name):
    assert read(config_map("a"), name=name)


def without(obj, *path):
    """A copy of an object that lacks a field."""
    copy = json.loads(json.dumps(obj))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return copy


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (without(config_map("a"), "apiVersion"), "ConfigMap a: apiVersion: this is missing"),
        (without(config_map("a"), "kind"), "None a: kind: "),
        (without(config_map("a"), "metadata", "name"), "ConfigMap None: metadata.name: "),
        (without(config_map("a"), "metadata"), "metadata.name: "),
        ({**config_map("a"), "metadata": {"name": "a", "labels": ["x"]}}, "metadata.labels: "),
        ({**config_map("a"), "metadata": {"name": "a", "namespace": 1}}, "metadata.namespace: "),
        (without(widget_crd(), "spec", "group"), "widgets.example.com: spec.group: "),
        (without(widget_crd(), "spec", "names", "kind"), "spec.names.kind: "),
        (without(widget_crd(), "spec", "versions", 0, "name"), "spec.versions: "),
        ({**widget_crd(), "spec": None}, "spec.group, spec.names.kind, spec.versions: "),
    ],
)
def test_objects_without_an_address_are_refused(obj, told):
    with pytest.raises(BadInput) as caught:
        read(obj)
    assert str(caught.value).startswith("Cannot read component c: definition: ")
    assert told in str(caught.value)


@pytest.mark.parametrize("version", ["v1?x=y", "../v1", "a/b/c", "v1/", "/v1", "v 1", "v1#", "v1%2f"])
def test_an_api_version_that_would_lead_elsewhere_is_refused(version):
    with pytest.raises(BadInput, match="ConfigMap a: apiVersion: "):
        read({**config_map("a"), "apiVersion": version})


@pytest.mark.parametrize("field", ["name", "namespace"])
@pytest.mark.parametrize("value", ["..", ".", "a/b", "a%2fb"])
def test_a_name_that_would_lead_elsewhere_is_refused(field, value):
    with pytest.raises(BadInput, match=rf"metadata\.{field}: "):
        read({**config_map("a"), "metadata": {"name": "a", "namespace": "b", field: value}})


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_values_of_labels_and_annotations_are_texts(field):
    odd = {**config_map("a"), "metadata": {"name": "a", field: {"good": "1", "nothing": None, "bad": 1}}}
    with pytest.raises(BadInput, match=rf"ConfigMap a: metadata\.{field}\.bad: "):
        read(odd)


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_values_that_are_no_texts_are_named_and_not_shown(kind):
    odd = {**config_map("a"), "kind": kind, "data": {"pin": 48151623, "ok": ""}, "stringData": {"on": True}}
    with pytest.raises(BadInput) as caught:
        read(odd)
    assert f"{kind} a: data.pin, stringData.on: " in str(caught.value)
    assert "48151623" not in str(caught.value)
    with pytest.raises(BadInput, match=rf"{kind} a: data: "):
        read({**odd, "data": [1], "stringData": None})


def test_an_object_may_be_there_once():
    with pytest.raises(BadInput, match="ConfigMap home/a is there twice"):
        read([config_map("a"), config_map("b"), config_map("a")])
    assert versionless_key(config_map("a")) == ("", "ConfigMap", "home", "a")


def test_a_task_without_objects_may_only_remove_everything():
    for options in ({}, {"definition": []}, {"state": "absent", "prune": False}):
        with pytest.raises(BadInput, match="it is empty"):
            read(**options)
    assert read(state="absent") == []


def test_namespaces_are_those_of_objects_and_those_to_be_made():
    assert namespaces_of([config_map("a"), namespace("new"), widget_crd()]) == {"home", "new"}
