# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of quota."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.face import Call, Face, Params, Result, Spec
from ansible_collections.muster.kube.plugins.module_utils._face.lease import lease_argument_spec, lease_from_params
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions, SubtreeSource
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import run_quota
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.quota.node_share import FROM_NODES
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import TREE_KEYS
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    BACKENDS,
    DEFAULT_TREE,
    FAIRS,
    OVER_CAPACITIES,
    PERIODS,
    RECLAIMS,
    STOPS,
)

_QUEUE: Spec = {
    "name": {"type": "str", "required": True},
    "parent": {"type": "str"},
    "nominal": {"type": "dict"},
    FROM_NODES: {
        "type": "dict",
        "options": {
            # A text, so that 1/3 can be said.
            "share": {"type": "str", "required": True},
            "resources": {"type": "list", "elements": "str", "required": True},
            "node_selector": {"type": "dict"},
            "less_daemons": {"type": "bool", "default": True},
        },
    },
    "extra": {"type": "dict"},
    "capacity": {"type": "dict"},
    "borrowing_limit": {"type": "dict"},
    "lending_limit": {"type": "dict"},
    "hard": {"type": "bool", "default": False},
    # A text, so that 0.1 stays exactly that.
    "weight": {"type": "str", "default": "1"},
    "priority_cap": {"type": "int"},
    "namespaces": {"type": "list", "elements": "str"},
    "selector": {"type": "dict"},
    "default": {"type": "bool", "default": False},
    "reclaim": {"type": "str", "default": "any", "choices": list(RECLAIMS)},
    "user_limits": {
        "type": "dict",
        "options": {"running": {"type": "int"}, "pending": {"type": "int"}, "resources": {"type": "dict"}},
    },
    "budget": {
        "type": "dict",
        "options": {
            "hours": {"type": "dict", "required": True},
            "period": {"type": "str", "default": "month", "choices": list(PERIODS)},
        },
    },
    "stop": {"type": "str", "default": "none", "choices": list(STOPS)},
    "note": {"type": "str"},
}
_FLAVOR: Spec = {
    "name": {"type": "str", "required": True},
    "node_labels": {"type": "dict"},
    "tolerations": {"type": "list", "elements": "dict"},
}
_SETTINGS: Spec = {
    "fair": {"type": "str", "default": "borrowed", "choices": list(FAIRS)},
    "half_life": {"type": "str", "default": "7d"},
    "min_run_time": {"type": "str", "default": "10m"},
    "nominate_timeout": {"type": "str", "default": "5m"},
    "max_evictions": {"type": "int", "default": 10},
    "prices": {"type": "dict"},
}


def _queues(given: list[Params] | None) -> list[Params] | None:
    """The queues as they were declared: one without a share of nodes says nothing of one."""
    if given is None:
        return None
    return [{key: value for key, value in item.items() if (key, value) != (FROM_NODES, None)} for item in given]


def _options(params: Params, check_mode: bool) -> QuotaOptions:
    """The options behind validated ones; the tree itself is read by the flow, which tells all that is wrong with it."""
    lease = lease_from_params(params)
    return QuotaOptions(
        tree=params["tree"],
        namespace=lease.namespace,
        state=params["state"],
        declaration={**{key: params[key] for key in TREE_KEYS}, "queues": _queues(params["queues"])},
        check_mode=check_mode,
        subtrees=None if params["from_quota_subtrees"] is None else SubtreeSource(**params["from_quota_subtrees"]),
        lease_name=lease.name,
    )


def _work(options: QuotaOptions, call: Call) -> Result:
    """One task on one tree."""
    return run_quota(lambda: connect(call.auth), options).as_result(diff=call.diff)


FACE = Face(
    name="quota",
    spec={
        **auth_argument_spec(),
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "tree": {"type": "str", "default": DEFAULT_TREE},
        "queues": {"type": "list", "elements": "dict", "options": _QUEUE},
        "flavors": {"type": "list", "elements": "dict", "options": _FLAVOR},
        "settings": {"type": "dict", "options": _SETTINGS},
        "over_capacity": {"type": "str", "default": "refuse", "choices": list(OVER_CAPACITIES)},
        "backends": {"type": "list", "elements": "str", "default": ["embedded"], "choices": list(BACKENDS)},
        "label": {"type": "str"},
        "priorities": {"type": "dict"},
        "from_quota_subtrees": {
            "type": "dict",
            "options": {"tree": {"type": "str"}, "namespace": {"type": "str"}},
        },
        **lease_argument_spec(),
    },
    rules={
        "required_if": [("state", "present", ["queues", "from_quota_subtrees"], True)],
        "mutually_exclusive": [("queues", "from_quota_subtrees")],
    },
    options=_options,
    work=_work,
    libraries=check_libraries,
)
