# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of the option lease, shared by all that take part in the dispatcher's Lease."""

from __future__ import annotations


class ModuleDocFragment:
    """Private to the collection: the wording may change in any release."""

    DOCUMENTATION = r"""
options:
  lease:
    description:
      - The Lease that decides which dispatcher acts. All dispatchers of a cluster must use the same.
    type: dict
    suboptions:
      namespace:
        description: Namespace of the Lease.
        type: str
        default: muster-system
      name:
        description: Name of the Lease.
        type: str
        default: dispatch
      seconds:
        description: After so many seconds without a sign of life another dispatcher takes over.
        type: float
        default: 15.0
"""
