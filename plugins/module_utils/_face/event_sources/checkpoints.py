# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source checkpoints: its arguments, and how it runs."""

from __future__ import annotations

import logging
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.arguments import (
    flag_of,
    open_source_client,
    source_fields,
    texts,
)
from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.handover import EventQueue, serve
from ansible_collections.muster.kube.plugins.module_utils._flow.events.checkpoints import (
    CheckpointEventOptions,
    checkpoints_work,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.events.collection import SourceEnd

_LOG = logging.getLogger("muster.kube.checkpoints")
_KNOWN = ("namespaces", "existing")


async def serve_checkpoints(queue: EventQueue, args: t.Any) -> None:
    """Put an event for each checkpoint into the queue until the task is cancelled."""
    fields, end = source_fields("checkpoints", args, _KNOWN), SourceEnd()
    options = CheckpointEventOptions(texts(fields, "namespaces"), flag_of(fields, "existing", True))
    await serve(checkpoints_work(open_source_client(fields, end), end, options, _LOG.warning), queue)
