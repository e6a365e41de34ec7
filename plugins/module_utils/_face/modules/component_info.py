# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of component_info."""

from __future__ import annotations

import functools

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.component_source import (
    component_argument_spec,
    components_from_params,
    program_paths,
    programs_argument_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.component.info import (
    ComponentQuestion,
    answer_components,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import InstalledPrograms
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import RECORDS_NAMESPACE


def _options(params: Params, _check_mode: bool) -> ComponentQuestion:
    """The options behind validated ones."""
    given = params["components"] is not None
    names = params["names"]
    return ComponentQuestion(
        names=None if names is None else tuple(dict.fromkeys(names)),
        components=components_from_params(params, needs_source=True) if given else (),
        record_namespace=params["record_namespace"],
        programs=program_paths(params),
    )


def _work(question: ComponentQuestion, call: Call) -> Result:
    """What there is."""
    programs = InstalledPrograms(lambda: connect(call.auth).kubeconfig(), question.programs)
    return answer_components(functools.partial(connect, call.auth), question, programs)


FACE = Face(
    name="component_info",
    spec={
        **auth_argument_spec(),
        **programs_argument_spec(),
        "names": {"type": "list", "elements": "str"},
        "components": {
            "type": "list",
            "elements": "dict",
            "options": {"name": {"type": "str", "required": True}, **component_argument_spec()},
        },
        "record_namespace": {"type": "str", "default": RECORDS_NAMESPACE},
    },
    options=_options,
    work=_work,
    libraries=check_libraries,
)
