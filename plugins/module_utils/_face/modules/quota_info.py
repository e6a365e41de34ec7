# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of quota_info."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect


def _options(params: Params, _check_mode: bool) -> QuotaInfoOptions:
    """The options behind validated ones."""
    return QuotaInfoOptions(lease_from_params(params).namespace, params["tree"])


FACE = Face(
    name="quota_info",
    spec={**auth_argument_spec(), "tree": {"type": "str"}, **lease_argument_spec()},
    options=_options,
    work=lambda options, call: answer_quota(connect(call.auth), options),
)
