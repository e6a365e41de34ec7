# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster without a wire for the flow of gang."""

from __future__ import annotations

import pytest


@pytest.fixture
def api():
    """A server that can be written to."""
    # Imported late: the loader of collections is in place only after pytest has read this file.
    from ansible_collections.muster.kube.tests.support.writable_api import WritableApi

    return WritableApi()
