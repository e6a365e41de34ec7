# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How every module runs and ends: with its result, or with a failure that names object, action and cause."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError


def run_module(face: Face[t.Any]) -> None:
    """Read the options, do the work and end the module; progress is shown by action plugins only."""
    module = AnsibleModule(argument_spec=face.spec, supports_check_mode=True, **face.rules)
    module.no_log_values |= set(face.masks(module.params))
    always = {"changed": False} if face.only_reads else {"ran": "module"}
    try:
        found = face.answer(module.params, check_mode=module.check_mode, diff=module._diff, report=module.debug)
    except MissingLibrary as error:
        module.fail_json(msg=missing_required_lib(error.library), exception=error.traceback, **always)
    except MusterError as error:
        module.fail_json(**always, **error.as_result())
    result = {**found, **always}
    # Handed to exit_json they would be reported as deprecated.
    for text in result.pop("warnings", None) or ():
        module.warn(text)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)
