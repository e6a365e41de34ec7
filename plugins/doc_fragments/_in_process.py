# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The note of modules whose work is done inside the Ansible process where that is possible."""

from __future__ import annotations


class ModuleDocFragment:
    """Private to the collection: the wording may change in any release."""

    DOCUMENTATION = r"""
options: {}
notes:
  - When the task runs on the controller itself, without C(become) and C(async), the work is done inside the Ansible
    process and its progress is shown.
"""
