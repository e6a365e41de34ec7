# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes of a run: what is taken, read-only unless somebody asks, and what is refused."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_volumes import read_volumes
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


@pytest.mark.parametrize(
    ("given", "volume", "mount"),
    [
        (
            {"path": "/data", "persistent_volume_claim": "c"},
            {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
            {"mountPath": "/data", "readOnly": True},
        ),
        (
            {"path": "/data", "persistent_volume_claim": "c", "sub_path": "a/b", "read_only": False},
            {"persistentVolumeClaim": {"claimName": "c", "readOnly": False}},
            {"mountPath": "/data", "subPath": "a/b"},
        ),
        (
            {"path": "/etc/word", "secret": "s", "key": "k.txt"},
            {"secret": {"secretName": "s", "defaultMode": 0o444, "items": [{"key": "k.txt", "path": "k.txt"}]}},
            {"mountPath": "/etc/word", "subPath": "k.txt", "readOnly": True},
        ),
        (
            {"path": "/etc/all", "config_map": "m"},
            {"configMap": {"name": "m", "defaultMode": 0o444}},
            {"mountPath": "/etc/all", "readOnly": True},
        ),
        (
            {"path": "/scratch", "empty_dir": {"size": "1Gi"}},
            {"emptyDir": {"sizeLimit": "1Gi"}},
            {"mountPath": "/scratch"},
        ),
    ],
)
def test_volumes_as_pods_have_them(given, volume, mount):
    [found] = read_volumes([given], "volumes")
    assert found.volume("v") == {"name": "v", **volume}
    assert found.mount("v") == {"name": "v", **mount}


@pytest.mark.parametrize(
    ("given", "field", "cause"),
    [
        ({"path": "/x"}, "path", "exactly one of"),
        ({"path": "/x", "secret": "a", "config_map": "b"}, "path", "exactly one of"),
        ({"path": "/x", "host_path": "/etc"}, "host_path", "folders of nodes"),
        ({"path": "/x", "hostPath": {"path": "/etc"}}, "hostPath", "folders of nodes"),
        ({"path": "/x", "secrets": "a"}, "secrets", "did you mean secret?"),
        ({"path": "x", "secret": "a"}, "path", "absolute path"),
        ({"path": "/a/../b", "secret": "a"}, "path", "absolute path"),
        ({"path": "/a:b", "secret": "a"}, "path", "absolute path"),
        ({"path": "/", "secret": "a"}, "path", "absolute path"),
        ({"path": "/muster/work", "secret": "a"}, "path", "not for volumes"),
        ({"path": "/proc", "secret": "a"}, "path", "not for volumes"),
        ({"path": "/taken", "secret": "a"}, "path", "something else lies at /taken"),
        ({"path": "/x", "secret": "A b"}, "secret", "the name of an object"),
        ({"path": "/x", "secret": "a", "key": "../b"}, "key", "an entry"),
        ({"path": "/x", "secret": "a", "key": ".."}, "key", "an entry"),
        ({"path": "/x", "empty_dir": {"size": "1"}, "key": "b"}, "key", "an entry"),
        ({"path": "/x", "secret": "a", "sub_path": "b"}, "sub_path", "a folder inside"),
        ({"path": "/x", "persistent_volume_claim": "a", "sub_path": "../b"}, "sub_path", "a folder inside"),
        ({"path": "/x", "secret": "a", "read_only": False}, "read_only", "cannot be written"),
        ({"path": "/x", "empty_dir": {"size": "1"}, "read_only": True}, "read_only", "of no use"),
        ({"path": "/x", "empty_dir": {}}, "empty_dir: size", "it is missing"),
        ({"path": "/x", "empty_dir": {"size": "0"}}, "empty_dir: size", "more than nothing"),
    ],
)
def test_complaints_name_the_field(given, field, cause):
    with pytest.raises(BadInput) as caught:
        read_volumes([given], "volumes", {"/taken"})
    assert caught.value.target == f"volumes[0]: {field}"
    assert cause in caught.value.cause


def test_two_volumes_cannot_lie_at_one_place():
    with pytest.raises(BadInput, match="something else lies at /x"):
        read_volumes([{"path": "/x", "secret": "a"}, {"path": "/x", "secret": "b"}], "volumes")
