# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section types of a report by name: one more costs one file and one line here."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.drawing import ALLOCATION
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.drawing import GANG_TIMELINE
from ansible_collections.muster.kube.plugins.module_utils._flow.report.inspections.drawing import INSPECTIONS
from ansible_collections.muster.kube.plugins.module_utils._flow.report.quota_tree.drawing import QUOTA_TREE
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Section

SECTIONS: dict[str, Section[t.Any]] = {
    "gang_timeline": GANG_TIMELINE,
    "inspections": INSPECTIONS,
    "quota_tree": QUOTA_TREE,
    "allocation": ALLOCATION,
}
