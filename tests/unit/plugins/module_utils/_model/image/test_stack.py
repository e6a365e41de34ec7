# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stacks are read strictly, written back the same, and have one hash."""

from __future__ import annotations

import base64
import copy
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import (
    STACK_KEYS,
    BuildSecret,
    File,
    Index,
    PythonStack,
    Stack,
    password_in,
    spec_hash,
    stack_data,
    stack_from_data,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from hypothesis import given
from hypothesis import strategies as st

FULL: dict[str, t.Any] = {
    "base": "registry.example:5000/team/debian:13@sha256:" + "a" * 64,
    "platform": "linux/arm64/v8",
    "packages": ["libc6:i386", "g++", "@development-tools", "nginx=1.2~rc1-3", "so:libc.so.6"],
    "package_manager": "apt",
    "update": True,
    "python": {
        "packages": ["numpy[extra]>=2,<3 ; python_version >= '3.11'"],
        "requirements": "six==1.17\n",
        "pipfile": {"packages": {"six": "*"}},
        "pipfile_lock": {"default": {}},
        "pyproject": "[project]\nname = 'x'\n",
        "extras": ["gpu"],
        "indexes": [
            {"name": "main", "url": "https://index.example/simple", "verify": False},
            {"name": "private", "secret": "index-url"},
        ],
        "installer": "uv",
        "upgrade_pip": True,
        "isolated": True,
    },
    "files": [
        {"path": "/etc/a b", "content": "x\n", "mode": "0600", "owner": "app:1000", "before_packages": True},
        {"path": "/bin/x", "content_base64": base64.b64encode(b"\xff\x00").decode(), "mode": "755"},
    ],
    "environment": {"B": "2", "A": "$x"},
    "labels": {"org.example/a": "b"},
    "user": "1000:1000",
    "workdir": "/work",
    "secrets": [
        {"id": "index-url", "secret": "index", "key": "url", "file": "/tmp/url"},
        {"id": "proxy", "use": "environment"},
    ],
}


def read(data: dict[str, t.Any]) -> Stack:
    return stack_from_data(data, "the stack")


def changed(path: tuple[t.Any, ...], value: t.Any) -> dict[str, t.Any]:
    """The full stack with one value replaced, or removed when the value is None."""
    data = copy.deepcopy(FULL)
    place: t.Any = data
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


def test_a_base_is_enough() -> None:
    assert read({"base": "debian"}) == Stack(base="debian")


def test_every_field_is_read() -> None:
    stack = read(FULL)
    assert stack.packages == ("libc6:i386", "g++", "@development-tools", "nginx=1.2~rc1-3", "so:libc.so.6")
    assert stack.environment == (("A", "$x"), ("B", "2"))
    assert stack.files == (
        File("/etc/a b", b"x\n", "0600", "app:1000", before_packages=True),
        File("/bin/x", b"\xff\x00", "0755"),
    )
    assert stack.secrets == (
        BuildSecret("index-url", "mount", "index", "url", "/tmp/url"),
        BuildSecret("proxy", "environment"),
    )
    assert stack.python == PythonStack(
        packages=("numpy[extra]>=2,<3 ; python_version >= '3.11'",),
        requirements="six==1.17\n",
        pipfile={"packages": {"six": "*"}},
        pipfile_lock={"default": {}},
        pyproject="[project]\nname = 'x'\n",
        extras=("gpu",),
        indexes=(
            Index("main", "https://index.example/simple", verify=False),
            Index("private", secret="index-url"),
        ),
        installer="uv",
        upgrade_pip=True,
        isolated=True,
    )
    assert (stack.platform, stack.package_manager, stack.update) == ("linux/arm64/v8", "apt", True)
    assert (stack.user, stack.workdir, stack.labels) == ("1000:1000", "/work", (("org.example/a", "b"),))


def test_written_out_and_read_again_it_is_the_same() -> None:
    assert read(stack_data(read(FULL))) == read(FULL)
    own = {"dockerfile": "FROM a\n", "files": [{"path": "a/b", "content": ""}], "platform": "linux/amd64"}
    assert read(stack_data(read(own))) == read(own)


def test_texts_of_documents_are_read() -> None:
    python = read(
        {"base": "a", "python": {"pipfile": '[packages]\nsix = "*"\n', "pipfile_lock": '{"default": {}}'}}
    ).python
    assert python is not None
    assert (python.pipfile, python.pipfile_lock) == ({"packages": {"six": "*"}}, {"default": {}})


def test_the_environment_may_be_a_list_and_hold_whole_numbers() -> None:
    listed = [{"name": "B", "value": 2}, {"name": "A", "value": "$x"}]
    assert read({"base": "a", "environment": listed}).environment == (("A", "$x"), ("B", "2"))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "the stack: base: it is missing; name the image to start from"),
        ({"base": "a", "pakages": []}, "the stack: pakages: unknown key; did you mean packages?"),
        ({"base": "a b"}, "'a b' is not the name of an image"),
        ({"base": "a\nRUN x"}, "is not the name of an image"),
        ({"base": "a", "platform": "linux/amd64 AS x"}, "is not a platform such as linux/amd64"),
        ({"base": "a", "packages": ["-y"]}, r"packages[0]: '-y' is not the name of a package"),
        ({"base": "a", "packages": ["x y"]}, "is not the name of a package"),
        ({"base": "a", "packages": ["ok", 3]}, "packages[1]: 3 is not the name of a package"),
        ({"base": "a", "package_manager": "brew"}, "'brew' is none of auto, apt"),
        ({"base": "a", "python": {"packages": ["--index-url=x"]}}, "is not a package as in a requirements file"),
        ({"base": "a", "python": {"packages": ["six\n-e ."]}}, "is not a package as in a requirements file"),
        ({"base": "a", "python": {"packages": ["six \\"]}}, "is not a package as in a requirements file"),
        ({"base": "a", "python": {"pyproject": "x"}}, "it is no TOML"),
        ({"base": "a", "python": {"pipfile": "= 1"}}, "python: pipfile: it is no TOML"),
        ({"base": "a", "python": {"pipfile_lock": "{"}}, "python: pipfile_lock: it is no JSON"),
        ({"base": "a", "python": {"pipfile_lock": "[]"}}, "a text or a mapping is needed, this is a list"),
        ({"base": "a", "python": {"extras": ["x"]}}, "they belong to a pyproject, and none is given"),
        ({"base": "a", "python": {"requirements": "x @ git+https://t0k3n@h/x"}}, "has a password in it"),
        ({"base": "a", "python": {"requirements": "--index-url https://u:p@h/"}}, "has a password in it"),
        (
            {"base": "a", "environment": {"PIP_INDEX_URL": "https://u:p@h/"}},
            "environment.PIP_INDEX_URL: a URL has a password in it",
        ),
        ({"base": "a", "labels": {"source": "https://t0k3n@h/x"}}, "labels.source: a URL has a password in it"),
        (
            {"base": "a", "files": [{"path": "/etc/pip.conf", "content": "x=https://u:p@h/"}]},
            "pip.conf: a URL has a password in it",
        ),
        (
            {"base": "a", "files": [{"path": "/b", "content_base64": "/2h0dHBzOi8vdTpwQGgvAA=="}]},
            "files: /b: a URL has a password in it",
        ),
        ({"dockerfile": "FROM a\nRUN curl https://u:p@h/x\n"}, "dockerfile: a URL has a password in it"),
        ({"base": "a", "packages": ["https://u:p@h/x.rpm"]}, "packages: a URL has a password in it"),
        (
            {"base": "a", "environment": {"URL": "https://h/x?a=1&access_token=abc"}},
            "environment.URL: a URL has a password in it",
        ),
        ({"base": "a", "python": {"indexes": [{"url": "https://h/simple?token=abc"}]}}, "a query in it"),
        ({"base": "a", "python": {"indexes": [{}]}}, "give either url or secret"),
        ({"base": "a", "python": {"indexes": [{"url": "ftp://x"}]}}, "is not a URL of http, https or file"),
        ({"base": "a", "python": {"indexes": [{"url": "https://u:p@h/"}]}}, "would stay in the image"),
        ({"base": "a", "python": {"indexes": [{"secret": "x"}]}}, "x is no id in secrets"),
        (
            {"base": "a", "secrets": [{"id": "x"}], "python": {"indexes": [{"secret": "x", "verify": False}]}},
            "it cannot be switched off for a URL from a secret",
        ),
        ({"base": "a", "python": {"indexes": [{"name": "x", "url": "https://a"}] * 2}}, "x is there twice"),
        ({"base": "a", "files": [{"path": "a", "content": ""}]}, "a must be absolute"),
        ({"base": "a", "files": [{"path": "/a/../b", "content": ""}]}, "must name a file without '.', '..'"),
        ({"base": "a", "files": [{"path": "/a/", "content": ""}]}, "must name a file without '.', '..'"),
        ({"base": "a", "files": [{"path": "/é", "content": ""}]}, "only printable ASCII works"),
        ({"base": "a", "files": [{"path": "/a\nb", "content": ""}]}, "only printable ASCII works"),
        ({"base": "a", "files": [{"path": "/a", "content": ""}] * 2}, "/a is there twice"),
        ({"base": "a", "files": [{"path": "/a"}]}, "give either content or content_base64"),
        ({"base": "a", "files": [{"path": "/a", "content": 3}]}, "a text is needed, not 3; quote it"),
        ({"base": "a", "files": [{"path": "/a", "content_base64": "?"}]}, "it is no base64"),
        ({"base": "a", "files": [{"path": "/a", "content_base64": 3}]}, "a text is needed, not 3"),
        ({"base": "a", "files": [{"path": "/a", "content": "", "mode": 420}]}, "a text is needed, not 420"),
        ({"base": "a", "files": [{"path": "/a", "content": "", "mode": "0999"}]}, "is not a mode such as '0644'"),
        ({"base": "a", "files": [{"path": "/a", "content": "", "owner": "a b"}]}, "is not a user"),
        ({"base": "a", "environment": {"A B": "x"}}, "'A B' cannot be the name of a variable"),
        ({"base": "a", "environment": {"A": "x\ny"}}, "cannot hold a value with a line break in it; use a file"),
        ({"base": "a", "environment": {"A": True}}, "environment.A: a text is needed, not True; quote it"),
        ({"base": "a", "environment": {"A": 1.1}}, "environment.A: a text is needed, not 1.1; quote it"),
        ({"base": "a", "environment": [{"name": "A", "value": "1"}] * 2}, "A is there twice"),
        ({"base": "a", "labels": {"a b": "x"}}, "'a b' cannot be the name of a label"),
        ({"base": "a", "labels": {"a": "\n"}}, "labels.a: a Dockerfile cannot hold"),
        ({"base": "a", "user": "root\nRUN x"}, "is not a user"),
        ({"base": "a", "workdir": "/a b"}, "is not an absolute path"),
        ({"base": "a", "workdir": "/$HOME"}, "is not an absolute path"),
        ({"base": "a", "secrets": [{}]}, "secrets[0]: id: it is missing"),
        ({"base": "a", "secrets": [{"id": "a,target=/x"}]}, "is not a name of at most 63"),
        ({"base": "a", "secrets": [{"id": "a"}, {"id": "a"}]}, "a is there twice"),
        ({"base": "a", "secrets": [{"id": "a", "use": "ca"}, {"id": "b", "use": "ca"}]}, "another secret is the ca"),
        ({"base": "a", "secrets": [{"id": "a", "value": "x"}]}, "unknown key"),
        ({"dockerfile": "FROM a", "packages": ["x"]}, "packages: beside an own dockerfile it would have no effect"),
        ({"dockerfile": "FROM a", "base": "a"}, "base: beside an own dockerfile"),
        ({"dockerfile": "FROM a", "files": [{"path": "/a", "content": ""}]}, "/a must be relative"),
        ({"dockerfile": "FROM a", "files": [{"path": "Dockerfile", "content": ""}]}, "is the builder's own"),
        ({"dockerfile": "FROM a", "files": [{"path": "a", "content": "", "owner": "x"}]}, "would have no effect"),
    ],
)
def test_what_is_wrong_is_named(data: dict[str, t.Any], complaint: str) -> None:
    with pytest.raises(BadInput) as error:
        read(data)
    assert complaint in str(error.value)
    assert str(error.value).startswith("Cannot read the stack")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://user:word@host/", True),
        ("https://token@host/", True),
        ("git+ssh://git@host/x", False),
        ("ssh://user:word@host", True),
        ("https://${USER}:${WORD}@host/", False),
        ("https://user:${WORD}@host/", True),
        ("https://host/a@b", False),
        ("mail me@host", False),
    ],
)
def test_a_password_in_a_url_is_seen(text: str, secret: bool) -> None:
    assert password_in(text) is secret


CHANGES: list[tuple[tuple[t.Any, ...], t.Any]] = [
    (("base",), "other"),
    (("platform",), None),
    (("packages",), ["g++", "libc6:i386", "@development-tools", "nginx=1.2~rc1-3", "so:libc.so.6"]),
    (("package_manager",), "dnf"),
    (("update",), False),
    (("python",), None),
    (("python", "packages"), ["numpy"]),
    (("python", "requirements"), "six"),
    (("python", "pipfile", "packages", "six"), "==1"),
    (("python", "pipfile_lock", "default"), {"six": {}}),
    (("python", "pyproject"), "[project]\nname = 'y'\n"),
    (("python", "extras"), None),
    (("python", "indexes", 0, "name"), "other"),
    (("python", "indexes", 0, "url"), "https://index.example/other"),
    (("python", "indexes", 0, "verify"), True),
    (("python", "indexes", 1, "secret"), "proxy"),
    (("python", "installer"), "pip"),
    (("python", "upgrade_pip"), False),
    (("python", "isolated"), False),
    (("files", 0, "path"), "/etc/b"),
    (("files", 0, "content"), "x"),
    (("files", 0, "mode"), "0644"),
    (("files", 0, "owner"), "root"),
    (("files", 0, "before_packages"), False),
    (("files", 1, "content_base64"), base64.b64encode(b"\xfe\x00").decode()),
    (("environment", "A"), "$y"),
    (("labels", "org.example/a"), "c"),
    (("user",), "0"),
    (("workdir",), "/"),
    (("secrets", 1, "id"), "proxies"),
    (("secrets", 1, "use"), "netrc"),
]


def test_the_hash_changes_with_each_field() -> None:
    assert {path[0] for path, _value in CHANGES} | {"dockerfile"} == set(STACK_KEYS)
    hashes = {spec_hash(read(changed(path, value)), "1") for path, value in CHANGES} | {spec_hash(read(FULL), "1")}
    assert len(hashes) == len(CHANGES) + 1
    assert spec_hash(read({"dockerfile": "FROM a"}), "1") != spec_hash(read({"dockerfile": "FROM b"}), "1")


def test_the_hash_changes_with_the_generator() -> None:
    assert spec_hash(read(FULL), "1") != spec_hash(read(FULL), "2")


def test_the_hash_does_not_tell_where_a_secret_is_kept() -> None:
    elsewhere = [changed(("secrets", 0, key), value) for key, value in (("secret", "x"), ("key", "y"), ("file", "z"))]
    assert {spec_hash(read(data), "1") for data in elsewhere} == {spec_hash(read(FULL), "1")}


def shuffled(value: t.Any, chance: random.Random) -> t.Any:
    """The same value with the keys of its mappings in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], chance) for key in chance.sample(list(value), len(value))}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


@given(st.randoms(use_true_random=False))
def test_the_order_of_keys_has_no_meaning(chance: random.Random) -> None:
    assert spec_hash(read(shuffled(FULL, chance)), "1") == spec_hash(read(FULL), "1")


@given(st.binary())
def test_any_content_comes_back(content: bytes) -> None:
    stack = Stack(base="a", files=(File("/a", content),))
    assert read(stack_data(stack)) == stack
    assert stack.files[0].content == content


@pytest.mark.parametrize(
    "data",
    [
        {"base": "a", "python": {"indexes": [{"url": "https://host/a@b/simple"}]}},
        {"base": "a", "secrets": [{"id": "a", "use": "environment"}, {"id": "b", "use": "environment"}]},
        {"base": "a", "secrets": [{"id": "a"}, {"id": "b"}]},
        {"base": "a", "secrets": [{"id": "a" * 63}]},
        {"base": "a", "files": [{"path": "/Dockerfile", "content": ""}]},
        {"dockerfile": "FROM a", "files": [{"path": "a/Dockerfile", "content": ""}]},
        {"dockerfile": "FROM a", "package_manager": "auto", "update": False, "packages": [], "labels": {}},
        {"dockerfile": "FROM a", "secrets": [{"id": "a"}], "platform": "linux/amd64"},
    ],
)
def test_what_only_looks_wrong_is_taken(data: dict[str, t.Any]) -> None:
    assert read(stack_data(read(data))) == read(data)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"base": "a", "python": {"indexes": [{"url": "https://h/simple#frag"}]}}, "a query in it"),
        ({"base": "a", "python": {"indexes": [{"url": "https://h", "secret": "x"}]}}, "give either url or secret"),
        ({"base": "a", "files": [{"path": "/a", "content": "", "content_base64": ""}]}, "give either content"),
        ({"base": "a", "secrets": [{"id": "a" * 64}]}, "is not a name of at most 63"),
        ({"dockerfile": "FROM a", "files": [{"path": "a", "content": "", "before_packages": True}]}, "no effect"),
        ({"dockerfile": "FROM a", "update": True}, "update: beside an own dockerfile"),
        ({"dockerfile": "FROM a", "package_manager": "apt"}, "package_manager: beside an own dockerfile"),
        ({"base": "a", "environment": {"A": "x\0y"}}, "a line break in it"),
    ],
)
def test_what_cannot_work_together_is_refused(data: dict[str, t.Any], complaint: str) -> None:
    with pytest.raises(BadInput) as error:
        read(data)
    assert complaint in str(error.value)


def test_indexes_without_a_name_are_called_by_their_number_and_are_verified() -> None:
    python = read({"base": "a", "python": {"indexes": [{"url": "https://a"}, {"url": "https://b"}]}}).python
    assert python is not None
    assert python.indexes == (Index("index0", "https://a", None, True), Index("index1", "https://b", None, True))


def test_plain_stacks_say_nothing_they_need_not_say() -> None:
    assert stack_data(read({"base": "a", "python": {}})) == {"base": "a", "python": {"installer": "pip"}}
    assert stack_data(read({"base": "a", "files": [{"path": "/a", "content": "x"}]}))["files"] == [
        {"path": "/a", "mode": "0644", "content": "x"}
    ]
