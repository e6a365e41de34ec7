# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""helm's own Secrets are read as helm writes them; damaged ones are refused with their name."""

from __future__ import annotations

import base64
import json
import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._model.component import helm_release
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import (
    HelmMark,
    read_release,
    read_revision,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.tests.support.helm_cases import release_body, release_secret
from hypothesis import given
from hypothesis import strategies as st

MARK = HelmMark("widgets", "abc", 3)
GOLDEN = pathlib.Path(__file__).parent / "golden"


def golden(name):
    """A release as helm itself wrote it."""
    path = GOLDEN / f"{name}.yml"
    [secret] = load_yaml(path.read_bytes(), path.name)
    return read_release(secret)


def test_what_helm_wrote_is_read():
    found = golden("deployed")
    assert (found.revision.revision, found.revision.status, found.from_install) == (1, "deployed", True)
    assert (found.chart, found.chart_version, found.app_version) == ("tiny", "0.1.0", "7")
    assert found.revision.mark == HelmMark("tinies", "abc", 1)
    assert found.revision.is_as_we_made_it
    assert found.values == {"b": {"c": [1, None, 2.5, "x"]}, "d": None}
    [obj] = load_yaml(found.manifest, "manifest")
    assert (obj["kind"], obj["metadata"], obj["data"]) == ("ConfigMap", {"name": "tiny"}, {"a": "1"})
    [hook] = [load_yaml(text, "hook")[0] for text in found.hooks]
    assert hook["metadata"]["annotations"] == {"helm.sh/hook": "pre-install"}


def test_what_helm_wrote_of_a_failure_is_read():
    found = golden("failed")
    assert (found.revision.revision, found.revision.status, found.from_install) == (2, "failed", False)
    assert (found.values, found.revision.is_as_we_made_it) == ({"slow": True}, True)
    assert "post-upgrade hooks failed" in found.description


def test_a_release_tells_chart_values_objects_and_hooks():
    hooks = [{"name": "h", "manifest": "kind: Job"}, {"manifest": None}]
    body = release_body(config={"a": {"b": 1}}, manifest="---\nkind: X\n", hooks=hooks, info={"description": "done"})
    found = read_release(release_secret(body, number=3, labels=MARK.as_labels()))
    assert (found.chart, found.chart_version, found.app_version) == ("widget", "1.2.3", "9")
    assert (found.values, found.manifest, found.hooks) == ({"a": {"b": 1}}, "---\nkind: X\n", ("kind: Job", ""))
    assert (found.revision.status, found.description, found.from_install) == ("deployed", "done", True)
    assert (found.revision.mark, found.revision.is_as_we_made_it) == (MARK, True)
    assert not read_release(release_secret(release_body(first="2026-11-16T03:00:00Z"))).from_install


def test_a_mark_counts_for_its_own_revision_only():
    found = read_revision(release_secret(release_body(), number=4, labels=MARK.as_labels()))
    assert found.mark == MARK
    assert not found.is_as_we_made_it
    assert read_revision(release_secret(release_body())).mark is None


@pytest.mark.parametrize(("status", "pending"), [("deployed", False), ("pending-install", True), ("pending-x", False)])
def test_a_revision_under_way_is_known_by_its_status(status, pending):
    assert read_revision(release_secret({}, status)).is_pending is pending


@pytest.mark.parametrize("label", ["owner", "name", "version"])
def test_a_secret_without_the_labels_of_helm_holds_no_revision(label):
    secret = release_secret(release_body())
    secret["metadata"]["labels"].pop(label)
    assert read_revision(secret) is None
    with pytest.raises(BadInput, match="it is no release of helm"):
        read_release(secret)


def test_a_release_that_was_stored_without_compression_is_read():
    secret = release_secret({})
    coded = base64.b64encode(base64.b64encode(json.dumps(release_body(config={"a": 1})).encode()))
    secret["data"]["release"] = coded.decode()
    assert read_release(secret).values == {"a": 1}


def test_a_release_of_another_form_is_left_alone():
    with pytest.raises(NewerVersion, match=r"its type is helm.sh/release.v2"):
        read_release({**release_secret({}), "type": "helm.sh/release.v2"})


def cut(secret):
    """A release of which the end is missing."""
    packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    return base64.b64encode(base64.b64encode(packed[:-12])).decode()


@pytest.mark.parametrize("coded", [None, "", "%%", base64.b64encode(b"%%").decode(), "cut", "bW9vbg=="])
def test_a_damaged_release_is_refused_with_its_name(coded):
    secret = release_secret(release_body(manifest="x" * 1000))
    secret["data"]["release"] = cut(secret) if coded == "cut" else coded
    with pytest.raises(
        BadInput, match=r"Secret home/sh.helm.release.v1.widget-operator.v1: the release in it is damag"
    ):
        read_release(secret)


def test_a_release_that_grows_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(helm_release, "_MOST_BYTES", 1000)
    with pytest.raises(BadInput, match="it is larger than 1000 bytes"):
        read_release(release_secret(release_body(manifest="x" * 100000)))


@pytest.mark.parametrize(
    "body",
    [
        {"info": "text"},
        {"info": {}, "chart": {"metadata": ["a"]}},
        {"config": ["a"]},
        {"hooks": 5},
        {"hooks": {"a": 1}},
    ],
)
def test_what_has_no_known_form_is_damaged(body):
    with pytest.raises(BadInput, match="the release in it is damaged"):
        read_release(release_secret(body))


def test_what_is_nested_without_end_is_damaged():
    secret = release_secret({})
    secret["data"]["release"] = base64.b64encode(base64.b64encode(b"[" * 200000)).decode()
    with pytest.raises(BadInput, match="nested too deeply"):
        read_release(secret)


def test_what_is_no_mapping_is_damaged():
    with pytest.raises(BadInput, match="it is no mapping"):
        read_release(release_secret([]))


@given(st.text(alphabet="0123456789abcdef", max_size=40), st.integers(0, 10**6))
def test_a_mark_is_read_as_it_was_written(render, number):
    mark = HelmMark("widgets", render, number)
    assert read_revision(release_secret({}, labels=mark.as_labels())).mark == mark
