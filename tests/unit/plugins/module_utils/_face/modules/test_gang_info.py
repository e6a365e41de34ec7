# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of gang_info."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.modules.gang_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def read(**options):
    """The flow's options behind those of a task."""
    checked = ModuleArgumentSpecValidator(FACE.spec).validate(options)
    assert checked.error_messages == []
    return FACE.options(checked.validated_parameters, False)


def test_the_question_of_gang_info():
    assert read() == GangInfoOptions(
        name=None, namespace=None, queue=None, phases=frozenset(), labels=None, log_lines=20, capacity=False
    )
    values = read(state=["queued", "failed"], label_selector=["a=b", "c"], log_lines=0)
    assert (values.phases, values.labels, values.log_lines) == ({"queued", "failed"}, "a=b,c", 0)
    with pytest.raises(BadInput, match="log_lines"):
        read(log_lines=-1)


def test_the_connection_options_are_all_there():
    assert auth_argument_spec().items() <= FACE.spec.items()
