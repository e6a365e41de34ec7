# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of image_build."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.build_settings import (
    SCRIPT_FILE,
    build_settings,
    build_settings_argument_spec,
    build_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildOptions, run_build
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def _options(params: Params, check_mode: bool) -> BuildOptions:
    """The options behind validated ones."""
    spec = None if params["stack"] is None else build_spec(params["stack"], params["image"], params["tag"])
    if params["context_dest"] is not None and params["state"] == "absent":
        raise BadInput("read", "context_dest", "there is nothing to write for what is removed")
    return BuildOptions(
        state=params["state"],
        engine=params["engine"],
        namespace=params["namespace"],
        spec=spec,
        image=params["image"],
        name=params["name"],
        settings=build_settings(params, params["engine"]),
        script=params["build_script"],
        force=params["force"],
        wait=params["wait"],
        ttl=None if params["ttl"] is None else parse_duration(params["ttl"], "ttl"),
        check_mode=check_mode,
        context_dest=params["context_dest"],
    )


FACE = Face(
    name="image_build",
    spec={
        **auth_argument_spec(),
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "namespace": {"type": "str", "default": "default"},
        "stack": {"type": "dict"},
        "image": {"type": "str"},
        "tag": {"type": "str"},
        "name": {"type": "str"},
        **build_settings_argument_spec(),
        "force": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "ttl": {"type": "str"},
        "build_script": {"type": "str"},
        # Not of the type path: it is written, so it is not looked for as files are that are read.
        "context_dest": {"type": "str"},
    },
    rules={
        "required_if": [("state", "present", ("image",)), ("state", "absent", ("stack", "name"), True)],
        "required_by": {"stack": ("image",), "tag": ("stack",), "context_dest": ("stack",)},
    },
    options=_options,
    work=lambda options, call: run_build(lambda: connect(call.auth), options, call.report),
    libraries=check_libraries,
    files={"build_script": SCRIPT_FILE},
)
