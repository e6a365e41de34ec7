# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How every module ends: with its result, or with a failure that names object, action and cause."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.muster.kube.plugins.module_utils._args.auth import secrets_of_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import MissingLibrary
from ansible_collections.muster.kube.plugins.module_utils._model.errors import MusterError


def answer(
    module: AnsibleModule, work: t.Callable[[], t.Mapping[str, t.Any]], *, kubeconfig: t.Any = None, **always: t.Any
) -> None:
    """Do the work and end the module; always are keys of every result.

    Secrets inside a kubeconfig given as dict are masked first. A result may say itself that it is a failure.
    """
    module.no_log_values |= secrets_of_kubeconfig(kubeconfig)
    try:
        result = {**work(), **always}
    except MissingLibrary as error:
        module.fail_json(msg=missing_required_lib(error.library), exception=error.traceback, **always)
    except MusterError as error:
        module.fail_json(**always, **error.as_result())
    # Handed to exit_json they would be reported as deprecated.
    for text in result.pop("warnings", None) or ():
        module.warn(text)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)
