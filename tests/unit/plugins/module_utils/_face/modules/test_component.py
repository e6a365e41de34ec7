# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of component."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.modules.component import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import ComponentOptions
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import (
    KustomizeSource,
    NodeTrace,
    OwnCondition,
    SmokeTest,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def validate(**options):
    return ModuleArgumentSpecValidator(FACE.spec, **FACE.rules).validate(options)


def read(check_mode=False, **options):
    """The flow's options behind those of a task."""
    checked = validate(**options)
    assert checked.error_messages == []
    return FACE.options(checked.validated_parameters, check_mode).plain


def test_what_a_task_says_reaches_the_flow():
    assert read(name="c", definition=OBJECT) == ComponentOptions(
        "c", "present", OBJECT, None, prune=True, wait=True, wait_timeout=120.0, check_mode=False
    )
    told = read(True, name="c", state="absent", src="x.yaml", prune=False, wait=False, wait_timeout="1h30m")
    assert told == ComponentOptions("c", "absent", None, "x.yaml", False, False, 5400.0, True)
    with pytest.raises(BadInput, match="wait_timeout"):
        read(name="c", wait_timeout="soon")


def recorded(**options):
    """The same of components with a record."""
    checked = validate(**options)
    assert checked.error_messages == []
    task = FACE.options(checked.validated_parameters, False)
    assert task.plain is None
    return task.recorded


def test_a_component_with_a_source_has_a_record():
    told = recorded(
        name="c",
        source="kustomize",
        src="config",
        version="1.2",
        depends_on=["a", "a"],
        condition={"api_version": "v1", "kind": "K", "name": "n", "type": "Ready"},
        nodes={"labels": ["x"]},
        smoke={"definition": OBJECT},
        wait_for="nodes",
    )
    (component,) = told.components
    assert (component.source, component.source_name) == (KustomizeSource("config"), "kustomize")
    assert (component.version, component.depends_on) == ("1.2", ("a",))
    assert component.condition == OwnCondition("v1", "K", "n", None, "Ready", "True")
    assert (component.nodes, component.smoke) == (NodeTrace(("x",)), SmokeTest(OBJECT))
    assert (told.single, told.wait_for, told.record_namespace) == (True, "nodes", "muster-system")
    assert recorded(name="c", source="manifest", definition=OBJECT, wait=False).wait_for == "source"


def test_several_components_have_records():
    told = recorded(components=[{"name": "a", "definition": OBJECT}, {"name": "b", "src": "x", "source": "kustomize"}])
    assert [component.name for component in told.components] == ["a", "b"]
    assert not told.single
    assert recorded(components=[{"name": "a"}], state="absent").components[0].source is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"components": []}, "the list is empty"),
        ({"components": [{"name": "a"}]}, "component a: source: it is missing"),
        ({"components": [{"name": "A_b", "definition": OBJECT}]}, "small letters"),
        ({"components": [{"name": "a", "definition": OBJECT, "src": "x"}]}, "definition is given too"),
        (
            {"components": [{"name": "a", "definition": OBJECT, "source": "kustomize"}]},
            "a kustomization is a directory",
        ),
        ({"components": [{"name": "a", "definition": OBJECT, "nodes": {}}]}, "nodes: it is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(options, told):
    with pytest.raises(BadInput, match=told):
        recorded(**options)


def test_what_only_components_with_a_record_have_needs_a_source():
    assert "source" in validate(name="c", definition=OBJECT, version="1").error_messages[0]
    assert "mutually exclusive" in validate(name="c", components=[{"name": "c"}]).error_messages[0]


def test_objects_come_from_one_place():
    assert "mutually exclusive" in validate(name="c", definition=OBJECT, src="x").error_messages[0]
    assert "name" in validate(definition=OBJECT).error_messages[0]


def test_the_connection_options_are_all_there():
    assert auth_argument_spec().items() <= FACE.spec.items()
