# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of elastic_job_info."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face
from ansible_collections.muster.kube.plugins.module_utils._face.gang_question import (
    gang_question,
    question_argument_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.info import answer_jobs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect

FACE = Face(
    name="elastic_job_info",
    spec={**auth_argument_spec(), **question_argument_spec()},
    options=lambda params, _check_mode: gang_question(params),
    work=lambda options, call: answer_jobs(connect(call.auth), options),
)
