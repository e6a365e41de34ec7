# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tasks say about quota trees, as typed values."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions

_USUAL_LEASE = LeaseOptions()
QuotaState = t.Literal["present", "absent"]


@dataclasses.dataclass(frozen=True, slots=True)
class SubtreeSource:
    """Whose QuotaSubtrees are read: those of a tree of MCAD's, in one namespace or in all."""

    tree: str | None = None
    namespace: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaOptions:
    """One task on one tree; declaration holds its queues, flavors and settings as the user wrote them.

    With subtrees the queues are those that MCAD has.
    """

    tree: str
    namespace: str
    state: QuotaState
    declaration: Mapping[str, t.Any]
    check_mode: bool = False
    subtrees: SubtreeSource | None = None
    lease_name: str = _USUAL_LEASE.name

    @property
    def lease(self) -> LeaseOptions:
        """The Lease of whoever dispatches by the tree."""
        return LeaseOptions(self.namespace, self.lease_name)


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaQuestion:
    """What is asked besides who has what; None where nothing is.

    gang is the namespace and name of a record, source one that is not queued yet. namespace and queue are those of the
    source, if there is one.
    """

    gang: tuple[str, str] | None = None
    source: GangSource | None = None
    namespace: str | None = None
    user: str | None = None
    queue: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaInfoOptions:
    """Which trees are asked about, None means all beside the Lease, and what of them."""

    namespace: str
    tree: str | None = None
    lease_name: str = _USUAL_LEASE.name
    question: QuotaQuestion = QuotaQuestion()

    @property
    def lease(self) -> LeaseOptions:
        """The Lease of whoever dispatches by the trees."""
        return LeaseOptions(self.namespace, self.lease_name)
