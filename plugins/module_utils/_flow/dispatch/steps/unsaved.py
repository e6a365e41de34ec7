# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""States of started gangs that are not written yet: the pods of most are bound soon, and one write tells both.

Until then a gang is known by its ticket, which tells whoever takes over all that the record does not.
"""

from __future__ import annotations

from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import UNDOING

# A state is written so many seconds after the start even if there is nothing more to tell.
SAVE_AFTER = 2.0


def save_due(cycle: Cycle, *, after: float = SAVE_AFTER) -> None:
    """Write the states that are old enough; those of edited gangs are, so that these are taken back."""
    session, now = cycle.session, cycle.session.client.clock()
    due: list[Record] = []
    for uid, (_record, since) in list(session.unsaved.items()):
        known = cycle.records.get(uid)
        if known is None or not known.unsaved or not cycle.at_rest(known):
            continue
        if now - since >= after:
            due.append(known)
        else:
            cycle.check_again(session.clock.now() + since + after - now)
    cycle.side_by_side([(record, partial(_save, cycle, record)) for record in due])


def _save(cycle: Cycle, record: Record) -> None:
    """Write one state."""
    written = cycle.carry_out(record, cycle.save)
    if written is not None and written.phase in UNDOING:
        cycle.decide(written, "stop", *written.why)
