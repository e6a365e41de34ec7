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
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def validate(**options):
    return ModuleArgumentSpecValidator(FACE.spec, **FACE.rules).validate(options)


def read(check_mode=False, **options):
    """The flow's options behind those of a task."""
    checked = validate(**options)
    assert checked.error_messages == []
    return FACE.options(checked.validated_parameters, check_mode)


def test_what_a_task_says_reaches_the_flow():
    assert read(name="c", definition=OBJECT) == ComponentOptions(
        "c", "present", OBJECT, None, prune=True, wait=True, wait_timeout=120.0, check_mode=False
    )
    told = read(True, name="c", state="absent", src="x.yaml", prune=False, wait=False, wait_timeout="1h30m")
    assert told == ComponentOptions("c", "absent", None, "x.yaml", False, False, 5400.0, True)
    with pytest.raises(BadInput, match="wait_timeout"):
        read(name="c", wait_timeout="soon")


def test_objects_come_from_one_place():
    assert "mutually exclusive" in validate(name="c", definition=OBJECT, src="x").error_messages[0]
    assert "name" in validate(definition=OBJECT).error_messages[0]


def test_the_connection_options_are_all_there():
    assert auth_argument_spec().items() <= FACE.spec.items()
