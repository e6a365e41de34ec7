# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading YAML."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host import yaml_text
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("a: 1\n---\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        (b"[1]", [[1]]),
        ("", []),
        ("d: 2026-01-01", [{"d": "2026-01-01"}]),
        ("# nothing\n", []),
        ("{8080: a, true: b, x: {1: [c]}}", [{"8080": "a", "true": "b", "x": {"1": ["c"]}}]),
        ("a: &a {b: 1}\nc: *a", [{"a": {"b": 1}, "c": {"b": 1}}]),
    ],
)
def test_documents(text, documents):
    assert yaml_text.load_yaml(text, "here") == documents


@pytest.mark.parametrize("text", ["a: [", "!!python/object:os.system {}", "1" * 5000])
def test_what_cannot_be_read_is_named(text):
    with pytest.raises(BadInput, match="Cannot read here: it is not YAML: "):
        yaml_text.load_yaml(text, "here")


MANY = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{number}: &a{number} [{','.join([f'*a{number - 1}'] * 10)}]\n" for number in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (MANY, "more than 5000000 values"),
        ("&a {b: *a}", "nested too deeply"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: .nan", "nan is no number"),
        ("a: [-.inf]", "-inf is no number"),
        ("a: !!binary aGk=", "bytes is nothing that JSON has"),
        ("a: !!set {b}", "set is nothing that JSON has"),
        ("{1: a, '1': b}", "a key is there twice"),
        ("{null: a}", "None is no key"),
        ("{1.5: a}", "1.5 is no key"),
    ],
)
def test_what_json_cannot_say_is_refused(text, told):
    with pytest.raises(BadInput, match=told):
        yaml_text.load_yaml(text, "here")


def test_a_missing_library_is_told(monkeypatch):
    monkeypatch.setattr(yaml_text, "YAML_IMPORT_ERROR", "Traceback")
    with pytest.raises(MissingLibrary) as caught:
        yaml_text.load_yaml("a: 1", "here")
    assert caught.value.library == "PyYAML"
