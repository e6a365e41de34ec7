# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How and where an image is built: the options that image_build and the build part of inspection have in common."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import (
    BUILDER_IMAGE,
    ENGINES,
    TIERS,
    BuildSettings,
    BuildSpec,
    check_registries,
    check_repository,
    check_tag,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import spec_hash, stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import (
    HardwareAsk,
    hardware_from_data,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import GENERATOR_VERSION

# The script that builds in the cluster, as a file of the collection.
SCRIPT_FILE = "roles/inspection/files/build.sh"
DEFAULT_REQUESTS = {"cpu": "500m", "memory": "512Mi"}
_SHORTEST = 1.0


def build_settings_argument_spec() -> Spec:
    """How and where an image is built: what image_build and the build part of inspection have in common."""
    return {
        "engine": {"type": "str", "default": "auto", "choices": list(ENGINES)},
        "tier": {"type": "str", "default": "auto", "choices": ["auto", *TIERS]},
        "builder_image": {"type": "str", "default": BUILDER_IMAGE},
        "requests": {"type": "dict"},
        "limits": {"type": "dict"},
        "hardware": {"type": "dict"},
        "tolerations": {"type": "list", "elements": "dict"},
        "service_account": {"type": "str"},
        "pull_secret": {"type": "str", "no_log": False},
        "push_secret": {"type": "str", "no_log": False},
        "insecure_registries": {"type": "list", "elements": "str"},
        "host_network": {"type": "bool", "default": False},
        "cache": {"type": "str"},
        "push": {"type": "bool"},
        "timeout": {"type": "str", "default": "1h"},
        "start_timeout": {"type": "str", "default": "10m"},
    }


def build_spec(stack: t.Mapping[str, t.Any], image: str, tag: str | None) -> BuildSpec:
    """What is wanted, out of the options stack, image and tag."""
    read = stack_from_data(stack, "stack")
    return BuildSpec(
        stack=read,
        repository=check_repository(image, "image"),
        spec_hash=spec_hash(read, GENERATOR_VERSION),
        tag=check_tag(tag, "tag"),
    )


def build_settings(params: Params, engine: str) -> BuildSettings:
    """How it is built, out of the options of build_settings_argument_spec."""
    local = engine == "podman"
    push = params["push"] if params["push"] is not None else not local
    if not push and not local:
        raise BadInput("read", "push", "an image built in the cluster that is not pushed would be lost")
    timeout, start_timeout = (parse_duration(params[name], name) for name in ("timeout", "start_timeout"))
    if timeout < _SHORTEST:
        raise BadInput("read", "timeout", f"at least {_SHORTEST:g} s are needed")
    if params["tier"] == "userns" and params["host_network"]:
        raise BadInput("read", "tier", "a pod in the network of its node cannot have a user namespace of its own")
    hardware = params["hardware"]
    limits = _amounts(params["limits"], "limits")
    requests = DEFAULT_REQUESTS if params["requests"] is None else _amounts(params["requests"], "requests")
    if params["requests"] is None and limits:
        # A limit stands for the request as well, which must not be above it.
        requests = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in limits}
    return BuildSettings(
        tier=None if params["tier"] == "auto" else params["tier"],
        builder_image=params["builder_image"],
        requests=requests,
        limits=limits,
        hardware=HardwareAsk() if hardware is None else hardware_from_data(hardware, "hardware"),
        tolerations=tuple(params["tolerations"] or ()),
        service_account=params["service_account"],
        pull_secret=params["pull_secret"],
        push_secret=params["push_secret"],
        insecure_registries=check_registries(params["insecure_registries"] or (), "insecure_registries"),
        host_network=params["host_network"],
        cache=None if params["cache"] in (None, "none") else check_repository(params["cache"], "cache"),
        push=push,
        timeout=timeout,
        start_timeout=start_timeout,
    )


def _amounts(values: t.Any, where: str) -> dict[str, str]:
    """Quantities by resource name; numbers are taken as written."""
    found = {}
    for name, amount in (values or {}).items():
        if isinstance(amount, bool) or not isinstance(amount, (str, int, float)):
            raise BadInput("read", f"{where}: {name}", f"a quantity such as 500m or 2Gi is needed, not {amount!r}")
        found[str(name)] = str(amount)
    return found
