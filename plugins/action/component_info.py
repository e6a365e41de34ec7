# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""component_info with its options checked on the controller."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.modules.component_info import FACE
from ansible_collections.muster.kube.plugins.plugin_utils._checked import CheckedAction


class ActionModule(CheckedAction):
    """The controller's side of component_info."""

    face = FACE
