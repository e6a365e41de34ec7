# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option that says where programs and clusters of this machine are kept."""

from __future__ import annotations

import os
import pathlib

from ansible.module_utils.basic import env_fallback
from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec

_VARIABLE = "MUSTER_CACHE"
_DEFAULT = "~/.cache/muster-kube"


def cache_argument_spec() -> Spec:
    """A directory, which an environment variable may name, too."""
    return {"cache": {"type": "path", "fallback": (env_fallback, [_VARIABLE])}}


def cache_path(params: Params) -> pathlib.Path:
    """The cache directory: the option, else the environment (both through the spec), else below the home directory."""
    return pathlib.Path(os.path.expanduser(params["cache"] or _DEFAULT)).absolute()
