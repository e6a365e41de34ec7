# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tier works: the strictest one in which a tiny image can be built, found once for each builder and namespace."""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.job import CONTAINER, build_job, deadline
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import (
    FileBundle,
    FinishedRun,
    RecordedJob,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import (
    Listen,
    Report,
    remove_recorded,
    run_recorded,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Invalid
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import (
    AUTO_TIERS,
    PROBE_LABEL,
    BuildSettings,
    BuildSpec,
    Tier,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import BUILD_FAILED, CONFIG, REFUSED
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json
from ansible_collections.muster.kube.plugins.module_utils._policy.image.build_outcome import build_outcome

_PROBE_SECONDS = 300.0
# Failures of a probe that are due to its tier; no room or no builder image says nothing about it.
_OF_TIER = (BUILD_FAILED, CONFIG, REFUSED)


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """The tier that works, why the stricter ones do not, and whether finding out changed anything."""

    tier: Tier
    refused: t.Mapping[str, str]
    changed: bool


class NoTier(MusterError):
    """No tier works; refused tells for each why."""

    def __init__(self, namespace: str, reason: str, refused: t.Mapping[str, str]) -> None:
        """Name each tier with its cause."""
        causes = "; ".join(f"{tier}: {cause}" for tier, cause in refused.items())
        super().__init__("build images in", f"namespace {namespace}", f"no tier works ({causes})")
        self.reason = reason
        self.refused = dict(refused)

    def as_result(self) -> Data:
        """The family's keys, the reason and the tiers."""
        return {**super().as_result(), "reason": self.reason, "tiers_refused": self.refused}


@dataclasses.dataclass(frozen=True, slots=True)
class Probes:
    """Builds of a tiny image, one for each tier; everything but tier, builder and account is of no matter to them."""

    client: KubeClient
    namespace: str
    spec: BuildSpec
    settings: BuildSettings
    script: str
    affinity: Data | None

    def choose_tier(self, report: Report, listen: Listen, *, force: bool = False) -> Chosen:
        """The strictest tier in which a build works here; what was found out is recorded and only tried again by force.

        What one odd node refuses is thus not held against the others for ever. Privileged pods are never tried.
        """
        refused: dict[str, str] = {}
        reasons: set[str] = set()
        changed = False
        for tier in AUTO_TIERS:
            if tier == "userns" and self.settings.host_network:
                refused[tier] = "a pod in the network of its node cannot have a user namespace of its own"
                continue
            probe = dataclasses.replace(self._probe(tier), force=force)
            try:
                found = run_recorded(self.client, probe, _naming(tier, report), listen=listen)
            except Invalid as error:
                # A server that does not know what the tier needs; nothing was started.
                remove_recorded(self.client, self.namespace, probe.name)
                refused[tier] = error.cause
                continue
            changed = changed or found.changed
            outcome = found.outcome or {}
            if outcome.get("reason") is None:
                return Chosen(tier, refused, changed)
            refused[tier] = str(outcome.get("message") or outcome["reason"])
            reasons.add(str(outcome["reason"]))
            if outcome["reason"] not in _OF_TIER:
                raise NoTier(self.namespace, str(outcome["reason"]), refused)
        refused["privileged"] = "it is not tried unless the option tier asks for it"
        raise NoTier(self.namespace, REFUSED if reasons == {REFUSED} else BUILD_FAILED, refused)

    def _probe(self, tier: Tier) -> RecordedJob:
        """The recorded Job that tries one tier."""
        spec, affinity = self.spec, self.affinity
        own = dataclasses.replace(self.settings, push_secret=None, cache=None, timeout=_PROBE_SECONDS)
        what = {"builder": own.builder_image, "tier": tier, "account": own.service_account}
        identity = hashlib.sha256(canonical_json(what).encode()).hexdigest()
        return RecordedJob(
            namespace=self.namespace,
            name=f"build-probe-{tier}-{identity[:10]}",
            labels={PROBE_LABEL: identity[:20]},
            spec=what,
            identity=identity,
            bundles=(FileBundle("c0", {"build.sh": self.script.encode()}),),
            job=lambda context: build_job(spec, own, tier, affinity, context, probe=True),
            harvest=lambda run: _harvest(spec, tier, run),
            failed_as=BUILD_FAILED,
            # What admission or the cluster refused may be over by now.
            is_stale=lambda outcome: outcome.get("reason") not in (None, BUILD_FAILED),
            start_timeout=own.start_timeout,
            deadline_seconds=deadline(own),
        )


def _harvest(spec: BuildSpec, tier: Tier, run: FinishedRun) -> Data:
    """Whether the probe worked, and if not, why."""
    pod = run.facts.pods[-1] if run.facts.pods else None
    log = run.log(pod.name, CONTAINER) if pod is not None and pod.started else None
    told = build_outcome(spec, run.state, read_frames(log or b""), log)
    return {key: told[key] for key in ("reason", "message", "log")} | {"tier": tier}


def _naming(tier: Tier, report: Report) -> Report:
    """Reports that say which tier they are about."""
    return lambda text: report(f"tier {tier}: {text}")
