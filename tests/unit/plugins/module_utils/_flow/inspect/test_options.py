# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task wants inspected, as values."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import (
    InspectionOptions,
    ScriptSource,
    checked,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.inspector import terms_of

STACK = {"stack": {"base": "b:1"}, "build": {"repository": "registry.example.com/x"}}


def test_a_stack_needs_no_script():
    assert checked(terms_of(STACK)).source is None


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [
        (InspectionOptions(), "exactly one of"),
        (InspectionOptions(image="i"), "a ready image needs a script"),
        (InspectionOptions(image="i", source=ScriptSource("x"), inspection_id="a"), "inspection_id"),
    ],
)
def test_what_does_not_go_together_is_refused(terms, complaint):
    with pytest.raises(BadInput, match=complaint):
        checked(terms)


def test_the_build_is_a_task_of_its_own_that_is_not_forced():
    terms = terms_of({**STACK, "namespace": "team", "force": True, "wait": False, "ttl": "1h"}, check_mode=True)
    build = terms.build_options()
    assert (build.namespace, build.force, build.wait, build.ttl, build.check_mode) == ("team", False, False, None, True)
    assert build.spec.repository == "registry.example.com/x"
    assert build.script
