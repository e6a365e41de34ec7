# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs queued and removed over HTTP, with the caller's own token: what the caller may not, the service does not."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.job import run_elastic_jobs
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.identity import Caller
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.jobs import Jobs
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import Declined, as_declined
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import read_wanted
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.requests import AskedJob, NewJob
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

# What a request waits at most for a record that somebody else is changing.
_PATIENCE = 10.0


class Submissions:
    """Queues and removes jobs in the name of callers."""

    def __init__(self, client: KubeClient, jobs: Jobs, lease: LeaseOptions) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._jobs = jobs
        self._lease = lease

    def queue(self, caller: Caller, job: NewJob) -> tuple[Data, bool]:
        """One job as it is queued now, and whether it is a new one."""
        source = GangSource(name=job.name, namespace=job.namespace, definition=job.definition)
        settings = GangSettings(queue=job.queue, priority=job.priority, elastic=job.terms)
        options = GangOptions(
            state="present",
            gangs=(GangAsk(source, settings),),
            rerun=job.rerun,
            replace=job.replace,
            wait=False,
            wait_timeout=_PATIENCE,
            lease=self._lease,
        )
        try:
            self._jobs.require_served(read_wanted(options)[0].namespace)
            answer = run_elastic_jobs(lambda: self._client.bearing(caller.token), options, _say_nothing)
        except Declined:
            raise
        except MusterError as error:
            raise as_declined(error, of_caller=True) from error
        told = answer.as_result()
        entry = told["jobs"][0]
        return {**entry, "warnings": told.get("warnings", [])}, entry["action"] in ("created", "recreated")

    def remove(self, caller: Caller, asked: Sequence[AskedJob]) -> Data:
        """These jobs are gone; those that are gone already are so too."""
        places = [self._jobs.place(caller, item) for item in asked]
        gangs = tuple(GangAsk(GangSource(name=name, namespace=namespace)) for namespace, name in places)
        options = GangOptions(state="absent", gangs=gangs, wait=False, wait_timeout=_PATIENCE, lease=self._lease)
        try:
            answer = run_elastic_jobs(lambda: self._client.bearing(caller.token), options, _say_nothing)
        except MusterError as error:
            raise as_declined(error, of_caller=True) from error
        keys = ("name", "namespace", "action", "changed")
        return {"jobs": [{key: entry[key] for key in keys} for entry in answer.as_result()["jobs"]]}


def _say_nothing(_words: str) -> None:
    """What a task would say while it works is for nobody here."""
