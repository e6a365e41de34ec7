# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind elastic_job_info: what gang_info tells of elastic gangs, and their sizes."""

from __future__ import annotations

from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.reported import Reported
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told_job import told_job
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions, answer_gangs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import ACTIVE_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data


def answer_jobs(client: KubeClient, question: GangInfoOptions) -> Data:
    """Everything there is to know about the elastic jobs in question; reads only."""
    told = answer_gangs(client, question, meant=_elastic, tell=partial(_job, Reported(client)))
    return {"jobs": told["gangs"], "position_scope": told["position_scope"], "notes": told["notes"]}


def _elastic(record: Record) -> bool:
    """Whether a gang is an elastic job."""
    return record.spec is not None and record.spec.elastic is not None


def _job(reported: Reported, told: Data, record: Record) -> Data:
    """One job in plain values."""
    able = reported.suspended_jobs_change
    job = told_job(told, record.spec, reported.of(record), suspended_jobs_change=able)
    return {**job, "sizes_next": _sizes_next(record)}


def _sizes_next(record: Record) -> Data | None:
    """The allowed sizes beside the one that a job has; None for one that has none now."""
    terms = record.spec.elastic if record.spec is not None else None
    size = record.state.allotment if record.state is not None and record.phase in ACTIVE_PHASES else None
    if terms is None or size is None:
        return None
    return {"smaller": terms.wanted.smaller(size), "larger": terms.wanted.larger(size)}
