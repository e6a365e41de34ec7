# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tasks say about quota trees, as typed values."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

QuotaState = t.Literal["present", "absent"]


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaOptions:
    """One task on one tree; declaration holds its queues, flavors and settings as the user wrote them."""

    tree: str
    namespace: str
    state: QuotaState
    declaration: Mapping[str, t.Any]
    check_mode: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaInfoOptions:
    """Which trees are asked about; None means all beside the Lease."""

    namespace: str
    tree: str | None = None
