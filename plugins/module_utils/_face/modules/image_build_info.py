# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of image_build_info."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params
from ansible_collections.muster.kube.plugins.module_utils._face.labels import label_selector, labels_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._flow.build.info import BuildInfoOptions, answer_builds
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect


def _options(params: Params, _check_mode: bool) -> BuildInfoOptions:
    """The options behind validated ones."""
    return BuildInfoOptions(
        namespace=params["namespace"],
        name=params["name"],
        spec_hash=params["spec_hash"],
        image=params["image"],
        labels=label_selector(params),
        log=params["log"],
    )


FACE = Face(
    name="image_build_info",
    spec={
        **auth_argument_spec(),
        "namespace": {"type": "str"},
        "name": {"type": "str"},
        "spec_hash": {"type": "str"},
        "image": {"type": "str"},
        **labels_argument_spec(),
        "log": {"type": "bool", "default": True},
    },
    options=_options,
    work=lambda options, call: answer_builds(connect(call.auth), options),
)
