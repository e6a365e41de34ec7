# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Amounts of quota trees for people who may not see the records of others: written now and then, in the background.

Nothing is ever decided by them, so that no trouble with them stops anything.
"""

from __future__ import annotations

from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle, Session
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.recover import evidence_of
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Invalid, KubeError
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, unforeseen
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import promised_elsewhere
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import Holders, charged_trees
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.published import published_status
from ansible_collections.muster.kube.plugins.module_utils._store.quota_status import write_status

# Amounts are looked at, and written, no more often than this.
PUBLISH_SECONDS = 10.0
# What was published may have been deleted; the cluster is asked again no sooner.
COMPARE_SECONDS = 60.0
_TASK = "quota amounts"


def tell_amounts(cycle: Cycle, world: World) -> None:
    """Publish what is used of each tree, if the last look was long enough ago, else a little later.

    Only a run that sees all namespaces can tell, and only under the Lease beside the trees.
    """
    session = cycle.session
    told = session.amounts
    blind = cycle.sight.blind is not None or world.quota.hidden is not None or "pods" in world.snapshot.unread
    if blind or told.barred or session.lease.terms != session.options.lease:
        return
    rest = told.looked + PUBLISH_SECONDS - session.client.clock()
    told.later = partial(_look, cycle, world)
    if rest > 0:
        cycle.check_again(session.clock.now() + rest)
    else:
        told.later()


def _look(cycle: Cycle, world: World) -> None:
    """Count what is used after this cycle, and publish it where it is news."""
    session = cycle.session
    session.amounts.later, session.amounts.looked = None, session.client.clock()
    records = {**cycle.elsewhere, **cycle.records}
    batch = evidence_of(cycle, world).open_batch(session.batch().batch)
    holders = Holders(records, world.gangs, promised_elsewhere(batch, records, world), world.pods.by_gang)
    call = partial(_publish, session, world.quota, holders, session.now_text())
    session.workers.begin([Task(_TASK, "", call)])


def _publish(session: Session, trees: QuotaTrees, holders: Holders, as_of: str) -> None:
    """Work out the amounts of all trees and write those that changed; a thread of its own, which tells its trouble."""
    try:
        for charged in charged_trees(trees, holders).values():
            _write(session, charged, as_of)
    except Exception as error:  # noqa: BLE001 - nobody waits for it
        session.journal.warn(f"what is used of quota could not be published: {unforeseen(error)}")


def _write(session: Session, charged: ChargedTree, as_of: str) -> None:
    """One tree; what could not be written is tried again the next time, and where nobody may write never."""
    status, known, now = published_status(charged, as_of), session.amounts.known, session.client.clock()
    before = known.get(status.tree)
    if before is not None and before[0].same_amounts(status) and now < before[1] + COMPARE_SECONDS:
        return
    try:
        write_status(session.client, session.lease.terms.namespace, status, session.lease.write_timeout)
    except (Forbidden, Invalid, BadInput) as error:
        session.amounts.barred = True
        session.journal.warn(f"what is used of quota is not published: {error}")
    except KubeError:
        # It was changed meanwhile, the Lease is lost, or the server does not answer.
        known.pop(status.tree, None)
    else:
        known[status.tree] = status, now
