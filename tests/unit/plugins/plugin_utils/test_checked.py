# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options that Ansible's own validation cannot get through are named."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.plugin_utils._checked import validated

SPEC = {
    "name": {"type": "str", "required": True},
    "lease": {"type": "dict", "options": {"seconds": {"type": "float"}}},
    "limit": {"type": "int"},
}
FACE = Face(name="thing", spec=SPEC, options=lambda params, _check_mode: params, work=lambda options, _call: options)


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [("lease", 0, "dict"), ("lease", 1.5, "dict"), ("limit", "1e9999", "int"), ("limit", "1" * 5000, "int")],
)
def test_the_option_is_named(option, value, kind):
    # Some versions of Ansible refuse such a number by themselves.
    try:
        told = "; ".join(validated(FACE, {"name": "x", option: value}).error_messages)
    except BadInput as error:
        told = str(error)
        assert f"option {option}: this cannot be made a {kind}" in told
    assert option in told


def test_what_ansible_refuses_by_itself_is_left_to_it():
    assert validated(FACE, {"lease": "text", "limit": "soon"}).error_messages
    assert validated(FACE, {"name": "x", "lease": {"seconds": 3}}).validated_parameters["lease"] == {"seconds": 3.0}
