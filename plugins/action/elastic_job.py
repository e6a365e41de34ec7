# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""elastic_job inside the Ansible process, so that waiting and starting can be watched."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic.elastic_job import FACE
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction


class ActionModule(InProcessAction):
    """The controller's side of elastic_job."""

    face = FACE
