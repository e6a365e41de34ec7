# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other controllers of an AppWrapper."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.status_writers import (
    RECENT_SECONDS,
    foreign_status_writer,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

NOW = read_time("2026-01-01T01:00:00Z")


def wrapper(*entries):
    fields = [{"manager": name, "subresource": sub, "time": at} for name, sub, at in entries]
    return {"metadata": {"name": "w", "managedFields": fields}}


def test_a_wrapper_nobody_touched_is_free():
    assert foreign_status_writer({"metadata": {"name": "w"}}, NOW) is None
    assert foreign_status_writer(wrapper(("kubectl", None, "2026-01-01T00:59:59Z")), NOW) is None


def test_a_controller_active_lately_is_named_on_first_sight():
    assert foreign_status_writer(wrapper(("mcad", "status", "2026-01-01T00:56:00Z")), NOW) == "mcad"


def test_one_that_fell_silent_is_not():
    silent = wrapper(("mcad", "status", "2026-01-01T00:54:00Z"))
    assert foreign_status_writer(silent, NOW) is None
    assert foreign_status_writer(silent, NOW - RECENT_SECONDS) == "mcad"


def test_after_our_first_write_only_later_ones_count():
    ours = ("muster.kube", "status", "2026-01-01T00:59:00Z")
    assert foreign_status_writer(wrapper(ours, ("mcad", "status", "2026-01-01T00:58:59Z")), NOW) is None
    assert foreign_status_writer(wrapper(ours, ("mcad", "status", "2026-01-01T00:59:01Z")), NOW) == "mcad"


def test_an_entry_without_a_time_is_old():
    assert foreign_status_writer(wrapper(("mcad", "status", None)), NOW) is None
