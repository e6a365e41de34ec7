# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Large images built for real: Debian packages, rpm packages by dnf, and a lock with two indexes.

Only in full runs: each of them installs a distribution's packages, which takes a minute or more.
"""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import shutil
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import ITEM_KEYS
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.build_site import ODD, BuildSite
from ansible_collections.muster.kube.tests.support.inspector import Inspector
from ansible_collections.muster.kube.tests.support.package_server import USER, Indexes, RpmRepository
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE

pytestmark = pytest.mark.full

NAMESPACE = "full-builds"
RUNS = 5


@pytest.fixture(scope="module")
def site(real_cluster):
    """One namespace for all builds."""
    made = BuildSite(real_cluster, NAMESPACE)
    real_cluster.live.namespace(NAMESPACE)
    yield made
    real_cluster.live.drop_namespace(NAMESPACE)


def keep_secret(site: BuildSite, name: str, **values: str) -> None:
    """Have a Secret in the namespace."""
    metadata = {"name": name, "namespace": NAMESPACE}
    site.cluster.live.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})


def assert_stays_out(site: BuildSite, built: dict[str, t.Any], word: str) -> list[bytes]:
    """The layers of an image, in none of which the word is, nor in the result and the record of the build."""
    layers = site.layers(built["image"])
    assert not any(word.encode() in layer for layer in layers)
    assert word not in json.dumps(built)
    record = get_object(site.cluster.client, resource_path("v1", "configmaps", NAMESPACE, built["name"]))
    assert record is not None
    assert word not in json.dumps(record)
    return layers


def certificates() -> str | None:
    """What this machine trusts, when it was told where that is; a package index may need it."""
    path = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    return pathlib.Path(path).read_text(encoding="utf-8") if path else None


def debian_stack(site: BuildSite, values: t.Collection[str], content: str = ODD) -> dict[str, t.Any]:
    """Native packages, a Python package, an odd file, and build secrets."""
    uses = {"token": "mount", "ca": "ca"}
    return {
        "base": site.cluster.base_image(),
        "packages": ["hello", "tree"],
        "python": {"packages": ["iniconfig==2.0.0"]},
        "files": [{"path": "/opt/odd", "content": content}],
        "secrets": [{"id": name, "use": uses[name], "secret": "build", "key": name} for name in values],
    }


SCRIPT = """#!/opt/muster/venv/bin/python
import iniconfig, json, pathlib, subprocess, sys
said = subprocess.run(["hello"], capture_output=True, text=True, check=True).stdout
print(json.dumps({"said": said, "odd": pathlib.Path("/opt/odd").read_text(encoding="utf-8"), "python": sys.prefix}))
"""


def test_a_debian_stack_is_built_run_five_times_and_rebuilt_for_a_changed_file(site, tmp_path):
    token, trusted = secrets.token_hex(16), certificates()
    values = {"token": token, **({"ca": trusted} if trusted else {})}
    keep_secret(site, "build", **values)
    # The layers of the packages are kept, so that another file does not install them again.
    options = site.options(image=f"{site.registry}/full/debian", cache=f"{site.registry}/full/layers")
    built = site.build(**options, stack=debian_stack(site, values))
    assert built["reason"] is None, built["log"]
    assert {"hello", "tree", "python3"} <= {entry["name"] for entry in built["packages"]["dpkg"]}
    assert {"name": "iniconfig", "version": "2.0.0"} in built["packages"]["pip"]
    assert built["packages"]["rpm"] is None
    assert built["base_digest"].startswith("sha256:")
    assert site.digests("full/debian") == {built["image"].rpartition(":")[2]: built["digest"]}
    layers = assert_stays_out(site, built, token)
    assert site.file_in(layers, "opt/odd")[0] == ODD.encode()

    settings = {name: value for name, value in options.items() if name not in ("namespace", "image")}
    task = {
        "stack": debian_stack(site, values),
        "build": {**settings, "repository": options["image"]},
        "run": {"requests": {"cpu": "100m", "memory": "64Mi"}, "hardware": {"node_selector": ON_REAL_NODE}},
        "script": SCRIPT,
        "repetitions": RUNS,
        "parallelism": 2,
    }
    with ApiProxy(site.cluster.kubeconfig, tmp_path) as proxy:
        inspector = Inspector(proxy.kubeconfig, NAMESPACE)
        first = inspector.run(**task)
        assert (first["phase"], first["spec_hash"], first["image_digest"]) == (
            "Succeeded",
            built["spec_hash"],
            built["digest"],
        )
        assert [item["index"] for item in first["runs"]] == list(range(RUNS))
        for item in first["runs"]:
            assert set(item) == set(ITEM_KEYS)
            expected = {"said": "Hello, world!\n", "odd": ODD, "python": "/opt/muster/venv"}
            assert (item["exit_code"], item["stdout"]) == (0, expected), item
            assert item["usage"]["max_rss_bytes"] > 0
            assert item["os_release"]["ID"] == "debian"
        proxy.forget()
        again = inspector.run(**task)
        assert_no_writes(proxy)
        assert (again["changed"], again["cached"], again["runs"]) == (False, True, first["runs"])
        changed = inspector.run(**{**task, "stack": debian_stack(site, values, ODD + "\n")})
    assert changed["spec_hash"] != first["spec_hash"]
    assert changed["image_digest"] != first["image_digest"]
    assert {item["stdout"]["odd"] for item in changed["runs"]} == {ODD + "\n"}
    assert len(site.digests("full/debian")) == 2


def test_rpm_packages_are_installed_by_dnf_from_a_repository_that_needs_a_password(site, tmp_path):
    missing = [program for program in ("rpmbuild", "createrepo_c") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"making rpm packages needs {' and '.join(missing)}")
    word = secrets.token_hex(16)
    (tmp_path / "repository").mkdir()
    with RpmRepository(tmp_path / "repository", tmp_path, word) as repository:
        keep_secret(site, "dnf", config=repository.configuration())
        stack = {
            "base": site.cluster.dnf_image(),
            "packages": ["plum-tree"],
            "secrets": [{"id": "dnf", "use": "native_config", "secret": "dnf", "key": "config"}],
        }
        built = site.build(stack=stack, image=f"{site.registry}/full/dnf")
    assert built["reason"] is None, built["log"]
    assert "muster.kube: native packages by dnf" in built["log"]
    assert any(path.endswith("plum-root-1.0-2.noarch.rpm") for path in repository.asked)
    assert built["packages"]["rpm"] == [
        {"name": "plum-root", "version": "1.0-2.noarch"},
        {"name": "plum-tree", "version": "1.0-2.noarch"},
    ]
    assert "dnf" in {entry["name"] for entry in built["packages"]["dpkg"]}
    layers = assert_stays_out(site, built, word)
    for name, text in (("plum-root", b"the root"), ("plum-tree", b"the tree")):
        assert site.file_in(layers, f"usr/share/{name}/text")[0] == text
    names = [name for layer in layers for name in site.names_in(layer)]
    assert [name for name in names if name.startswith("var/cache/dnf/") and "plums" in name] == []


def test_each_package_of_a_lock_comes_from_its_own_index(site, tmp_path):
    word = secrets.token_hex(16)
    with Indexes(tmp_path, word) as indexes:
        keep_secret(site, "netrc", netrc=f"machine 127.0.0.1 login {USER} password {word}\n")
        stack = {
            "base": site.cluster.base_image(),
            "python": {"pipfile_lock": indexes.lock(f"http://{indexes.address}/second/")},
            "secrets": [{"id": "netrc", "use": "netrc", "secret": "netrc"}],
        }
        built = site.build(stack=stack, image=f"{site.registry}/full/locked")
        assert built["reason"] is None, built["log"]
        wheels = [path for path in indexes.asked if path.endswith(".whl")]
        other = json.loads(json.dumps(stack))
        other["python"]["pipfile_lock"]["default"]["pear"]["index"] = "first"
        refused = site.build(stack=other, image=f"{site.registry}/full/locked")
    assert wheels == ["/first/apple/apple-1.0-py3-none-any.whl", "/second/pear/pear-1.0-py3-none-any.whl"]
    installed = [entry for entry in built["packages"]["pip"] if entry["name"] in ("apple", "pear", "plum")]
    assert installed == [{"name": "apple", "version": "1.0"}, {"name": "pear", "version": "1.0"}]
    layers = assert_stays_out(site, built, word)
    for name, index in (("apple", "first"), ("pear", "second")):
        [path] = {path for layer in layers for path in site.names_in(layer) if path.endswith(f"-packages/{name}.py")}
        assert site.file_in(layers, path)[0].decode() == f"TEXT = 'from the {index} index'\n"
    # The index that the lock names has another file of that name and version.
    assert (refused["reason"], refused["digest"]) == ("build_failed", None)
    assert "DO NOT MATCH THE HASHES" in refused["log"]
