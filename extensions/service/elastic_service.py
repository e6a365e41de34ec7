#!/usr/bin/env python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serve elastic jobs over HTTP, for trainings and for programs that know the GenAI workload manager.

It needs Python 3.11 or later with the packages kubernetes, PyYAML and aiohttp, and this collection where it was
installed; --help tells the options.
"""

from __future__ import annotations

import pathlib
import sys

# No loader of collections is here: the folder that holds ansible_collections is found from this file.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[5]))

from ansible_collections.muster.kube.plugins.module_utils._face.service.program import main

if __name__ == "__main__":
    sys.exit(main())
