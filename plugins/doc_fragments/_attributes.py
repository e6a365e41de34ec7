# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation fragments that tell what modules can do: check mode, diff mode, idempotence, action group."""

from __future__ import annotations


class ModuleDocFragment:
    """Private to the collection: the wording may change in any release."""

    # Modules that change something; each adds its own support values.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and tell what would change without changing anything.
  diff_mode:
    description: Tells what changed, or in check mode would change, when diff mode is on.
  idempotent:
    description:
      - When run twice in a row with the same options, the second run changes nothing and writes nothing.
      - This assumes that nothing else changed what the module manages in between.
  async:
    description: Can be used with the C(async) keyword. Progress is not shown then.
    support: full
  platform:
    description: Operating systems on which the module can run.
    platforms: posix
    support: full
"""

    # Modules that only read.
    INFO = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and tell what would change without changing anything.
    support: full
    details:
      - This module never changes anything.
  diff_mode:
    description: Tells what changed, or in check mode would change, when diff mode is on.
    support: N/A
    details:
      - This module never changes anything.
  idempotent:
    description:
      - When run twice in a row with the same options, the second run changes nothing and writes nothing.
    support: full
    details:
      - This module never changes anything.
  async:
    description: Can be used with the C(async) keyword. Progress is not shown then.
    support: full
  platform:
    description: Operating systems on which the module can run.
    platforms: posix
    support: full
"""

    # Modules that talk to an API server and share its connection options.
    ACTION_GROUP = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/muster.kube.kube) in C(module_defaults) to set the connection options of this and all other modules
        of the group at once.
    support: full
    membership:
      - muster.kube.kube
"""
