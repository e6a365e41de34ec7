# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Dockerfile of a stack: golden files, and nothing a user writes can become an instruction."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack, stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import Context, build_context, quoted
from ansible_collections.muster.kube.plugins.module_utils._policy.image.install_scripts import (
    NATIVE_SH,
    PYTHON_SH,
    SECRETS_SH,
)
from ansible_collections.muster.kube.tests.support.dockerfile_reader import (
    assignment,
    instructions,
    json_words,
    plain_path,
)
from ansible_collections.muster.kube.tests.support.golden import expected
from hypothesis import given
from hypothesis import strategies as st

GOLDEN = pathlib.Path(__file__).parent / "golden"
SCRIPTS = {
    "files/install-native.sh": NATIVE_SH,
    "files/install-python.sh": PYTHON_SH,
    "files/secrets.sh": SECRETS_SH,
}
HASHED = {"version": "==1.0", "hashes": ["sha256:bb", "sha256:aa"]}
STACKS: dict[str, dict[str, t.Any]] = {
    "base": {"base": "docker.io/library/debian:13-slim", "platform": "linux/arm64"},
    "native": {"base": "debian", "packages": ["curl", "git=1:2.47"], "update": True, "package_manager": "apt"},
    "pip": {"base": "debian", "python": {"packages": ["six", "idna>=3"], "upgrade_pip": True, "isolated": True}},
    "uv": {"base": "debian", "python": {"requirements": "six\nidna", "packages": ["attrs"], "installer": "uv"}},
    "hashes": {"base": "debian", "python": {"requirements": "six==1 --hash=sha256:aa\n", "packages": ["attrs"]}},
    "pipfile": {"base": "debian", "python": {"pipfile": {"packages": {"six": "*"}, "requires": {}}}},
    "pipfile-lock": {
        "base": "debian",
        "python": {
            "pipfile_lock": {
                "_meta": {
                    "requires": {"python_version": "3.11"},
                    "sources": [
                        {"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": True},
                        {"name": "extra", "url": "https://extra.example/simple", "verify_ssl": False},
                    ],
                },
                "default": {
                    "six": HASHED,
                    "torch": {**HASHED, "index": "extra", "markers": "python_version >= '3.10'", "extras": ["opt"]},
                },
            },
            "indexes": [{"name": "extra", "secret": "extra-url"}],
        },
        "secrets": [{"id": "extra-url", "secret": "indexes", "key": "extra"}],
    },
    "pyproject": {
        "base": "debian",
        "python": {
            "pyproject": "[project]\nname = 'x'\nrequires-python = '>=3.11'\ndependencies = ['six']\n"
            "[project.optional-dependencies]\ngpu = ['torch']\n",
            "extras": ["gpu"],
        },
    },
    "indexes": {
        "base": "debian",
        "python": {
            "packages": ["six"],
            "indexes": [
                {"url": "https://index.example/simple"},
                {"url": "https://old.example:8443/simple", "verify": False},
            ],
        },
    },
    "files": {
        "base": "debian",
        "packages": ["curl"],
        "files": [
            {"path": "/etc/odd \"name\" $HOME 'x' \\", "content": "quotes \" ' ` $x\nné ☃\n", "mode": "600"},
            {"path": "/etc/apt/apt.conf.d/90x", "content": "x", "before_packages": True},
            {"path": "/bin/run", "content": "#!/bin/sh\n", "mode": "0755", "owner": "1000:1000"},
        ],
    },
    "environment": {
        "base": "debian",
        "environment": {"A": "two words", "B": "$HOME \\$x ${y:-z}", "C": "\"'`#", "D": "\\", "E": "", "F": "né ☃\t"},
        "labels": {"org.example/text": 'a "b" $c'},
        "user": "1000",
        "workdir": "/work",
    },
    "own": {"dockerfile": "FROM x\nCOPY a/b /\n", "files": [{"path": "a/b", "content": "c\n", "mode": "0755"}]},
    "secrets": {
        "base": "debian",
        "packages": ["curl"],
        "python": {"packages": ["six"]},
        "secrets": [
            {"id": "proxy", "use": "environment"},
            {"id": "ca.pem", "use": "ca"},
            {"id": "apt", "use": "native_config"},
            {"id": "pip", "use": "pip_config"},
        ],
    },
}


def read(data: dict[str, t.Any]) -> Stack:
    return stack_from_data(data, "the stack")


def shown(context: Context) -> str:
    """The Dockerfile, and as comments the files beside it; of the scripts that never change only the name."""
    lines = [context.dockerfile]
    for file in context.files:
        lines.append(f"\n#= {file.name} {file.mode}\n")
        if file.name not in SCRIPTS:
            lines += [f"#| {line}\n" for line in file.content.decode().split("\n")]
    return "".join(lines)


@pytest.mark.parametrize("name", STACKS)
def test_golden(name: str) -> None:
    found = shown(build_context(read(STACKS[name])))
    assert found == expected(GOLDEN / f"{name}.Dockerfile", found)


def test_the_scripts_are_always_the_same() -> None:
    for data in STACKS.values():
        for file in build_context(read(data)).files:
            assert file.content.decode(errors="replace") == SCRIPTS.get(
                file.name, file.content.decode(errors="replace")
            )


def test_no_name_is_there_twice_and_everything_copied_is_there() -> None:
    for data in STACKS.values():
        context = build_context(read(data))
        names = [file.name for file in context.files]
        assert len(set(names)) == len(names)
        if "dockerfile" not in data:
            copied = [json_words(rest)[1][:-1] for name, rest in instructions(context.dockerfile) if name == "COPY"]
            assert {word for words in copied for word in words} == set(names)


def test_a_lock_of_another_pipfile_is_refused() -> None:
    stack = {"base": "x", "python": {"pipfile": {"packages": {}}, "pipfile_lock": {"_meta": {"hash": {"sha256": "a"}}}}}
    with pytest.raises(BadInput, match="lock again or leave out the Pipfile"):
        build_context(read(stack))


def test_a_stack_without_base_is_refused() -> None:
    with pytest.raises(BadInput, match="it has no base"):
        build_context(Stack(base=None))


# Texts made of what shells and Dockerfiles give a meaning to, now and then of anything else.
NASTY = st.text(st.sampled_from("\\\"'$`{}()[]<>|&;#\n\r\t =,:-*?!%~aAé☃\0\x7f\u2028"), max_size=12)
WORDS = st.sampled_from(
    [
        "RUN id",
        "\nRUN id\n",
        "\\\nRUN id",
        "$(id)",
        "`id`",
        "${HOME}",
        "<<EOF",
        "# escape=`",
        "a b",
        "--mount=x",
        "'; id #",
    ]
)
TEXTS = st.one_of(NASTY, WORDS, st.text(max_size=8), st.builds(lambda a, b: a + b, NASTY, WORDS))


@given(st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])))
def test_a_quoted_value_stands_for_itself(value: str) -> None:
    assert instructions(f"ENV A={quoted(value)}\n") == [("ENV", f"A={quoted(value)}".rstrip())]
    assert assignment(f"A={quoted(value)}") == ("A", value)


@given(st.binary(), st.binary())
def test_any_content_is_in_the_context_byte_for_byte(first: bytes, second: bytes) -> None:
    import base64

    files = [{"path": f"/f{n}", "content_base64": base64.b64encode(c).decode()} for n, c in enumerate((first, second))]
    context = build_context(read({"base": "x", "files": files}))
    assert [file.content for file in context.files] == [first, second]
    assert [name for name, rest in instructions(context.dockerfile)] == ["FROM", "COPY", "COPY"]


FILES = st.fixed_dictionaries(
    {"path": st.one_of(TEXTS, TEXTS.map(lambda text: "/" + text)), "content": TEXTS},
    optional={"mode": st.one_of(TEXTS, st.just("0600")), "owner": st.one_of(TEXTS, st.just("a:1"))},
)
SECRETS = st.fixed_dictionaries({"id": st.one_of(TEXTS, st.just("s"))}, optional={"use": st.just("environment")})
PYTHON = st.fixed_dictionaries(
    {},
    optional={
        "packages": st.lists(st.one_of(TEXTS, TEXTS.map(lambda text: "a" + text)), max_size=2),
        "requirements": TEXTS,
        "indexes": st.lists(
            st.fixed_dictionaries({"url": TEXTS.map(lambda text: f"https://{text}")}, optional={"name": TEXTS}),
            max_size=2,
        ),
        "pipfile": st.fixed_dictionaries({"packages": st.dictionaries(TEXTS, TEXTS, max_size=2)}),
    },
)
FIELDS: dict[str, st.SearchStrategy[t.Any]] = {
    "platform": TEXTS,
    "packages": st.lists(st.one_of(TEXTS, TEXTS.map(lambda text: "a" + text)), max_size=3),
    "update": st.booleans(),
    "python": PYTHON,
    "files": st.lists(FILES, max_size=3),
    "environment": st.dictionaries(st.one_of(TEXTS, st.sampled_from("ABC")), TEXTS, max_size=3),
    "labels": st.dictionaries(st.one_of(TEXTS, st.sampled_from("abc")), TEXTS, max_size=3),
    "user": TEXTS,
    "workdir": TEXTS,
    "secrets": st.lists(SECRETS, max_size=1),
}


def names_wanted(stack: Stack) -> list[str]:
    """The instructions that the structure of a stack asks for, whatever its texts say."""
    native = ["COPY", "RUN"] if stack.packages or stack.update else []
    python = ["COPY", "RUN", "ENV", "ENV"] if stack.python is not None else []
    return [
        "FROM",
        *(["USER"] if native or python else []),
        *(["ENV"] * len(stack.environment)),
        *native,
        *python,
        *(["COPY"] * len(stack.files)),
        *(["WORKDIR"] if stack.workdir is not None else []),
        *(["LABEL"] * len(stack.labels)),
        *(["USER"] if stack.user is not None else []),
    ]


def secrets_of(stack: Stack, part: str) -> list[str]:
    """The secrets that one of the install scripts has any use for."""
    indexes = [index.secret for index in stack.python.indexes] if stack.python is not None else []
    if part == "python":
        return [item.id for item in stack.secrets if item.use != "native_config"]
    return [item.id for item in stack.secrets if item.use not in ("pip_config", "uv_config") and item.id not in indexes]


def test_a_secret_is_mounted_only_in_the_step_that_needs_it() -> None:
    uses = ("environment", "ca", "netrc", "pip_config", "uv_config", "native_config")
    stack = read(
        {
            "base": "debian",
            "packages": ["curl"],
            "python": {"packages": ["six"], "indexes": [{"secret": "index"}]},
            "secrets": [{"id": "index"}, {"id": "other"}, *({"id": use, "use": use} for use in uses)],
        }
    )
    native, python = (
        {
            option.removeprefix("--mount=type=secret,id=").removesuffix(",required=true")
            for option in json_words(rest)[0]
        }
        for name, rest in instructions(build_context(stack).dockerfile)
        if name == "RUN"
    )
    assert native == {"other", "environment", "ca", "netrc", "native_config"}
    assert python == {"index", "other", "environment", "ca", "netrc", "pip_config", "uv_config"}


def check_harmless(stack: Stack) -> None:
    """The Dockerfile has the instructions of the structure, and every text in it means itself."""
    context = build_context(stack)
    found = instructions(context.dockerfile)
    assert [name for name, rest in found] == names_wanted(stack)
    values = [
        assignment(rest) for name, rest in found if name == "ENV" and not rest.startswith(("VIRTUAL_ENV=", "PATH="))
    ]
    assert values == list(stack.environment)
    assert [assignment(rest) for name, rest in found if name == "LABEL"] == list(stack.labels)
    copies = [json_words(rest)[1] for name, rest in found if name == "COPY"]
    assert [plain_path(words[1]) for words in copies if words[-1] != "/opt/muster/build/"] == [
        file.path for file in stack.files
    ]
    for name, rest in found:
        if name == "RUN":
            options, words = json_words(rest)
            assert words[:2] in (["/bin/sh", f"/opt/muster/build/install-{part}.sh"] for part in ("native", "python"))
            part = words[1].removeprefix("/opt/muster/build/install-").removesuffix(".sh")
            assert options == [f"--mount=type=secret,id={name},required=true" for name in secrets_of(stack, part)]
    for file in context.files:
        if file.name == "files/native.txt":
            assert file.content.decode().splitlines() == list(stack.packages)
        if file.name in SCRIPTS:
            assert file.content.decode() == SCRIPTS[file.name]


@given(st.one_of(*(st.tuples(st.just(key), values) for key, values in FIELDS.items())))
def test_no_field_can_add_an_instruction(field: tuple[str, t.Any]) -> None:
    try:
        stack = read({"base": "debian", field[0]: field[1]})
    except BadInput:
        return
    try:
        check_harmless(stack)
    except BadInput:
        assert field[0] == "python"


@given(st.fixed_dictionaries({"base": st.just("debian")}, optional=t.cast("t.Any", FIELDS)))
def test_no_fields_together_can_add_an_instruction(data: dict[str, t.Any]) -> None:
    kept = {}
    for key, value in data.items():
        try:
            build_context(read({"base": "debian", key: value}))
        except BadInput:
            continue
        kept[key] = value
    check_harmless(read({**kept, "base": "debian"}))


@given(TEXTS)
def test_no_base_can_add_an_instruction(text: str) -> None:
    try:
        stack = read({"base": "a" + text})
    except BadInput:
        return
    assert instructions(build_context(stack).dockerfile) == [("FROM", "a" + text)]


def test_the_checks_would_see_an_injection() -> None:
    assert [name for name, rest in instructions('ENV A="x"\nRUN id\n')] == ["ENV", "RUN"]
    for bad in ('A="$x"', 'A="x" B="y"', "A=x", 'A="x"y'):
        with pytest.raises(Exception, match=r".+"):
            assignment(bad)
    with pytest.raises(Exception, match=r"\$ in /\$HOME"):
        plain_path("/$HOME")
    assert json.loads(json.dumps(json_words('--a=b ["c"]'))) == [["--a=b"], ["c"]]
