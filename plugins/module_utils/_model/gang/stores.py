# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of objects that can hold a queued gang."""

from __future__ import annotations

import typing as t

Store = t.Literal["configmap", "appwrapper"]
STORES: tuple[Store, ...] = t.get_args(Store)
