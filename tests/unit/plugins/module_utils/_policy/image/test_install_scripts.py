# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The install scripts, run for real with package managers that only write down how they were called."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import build_context
from ansible_collections.muster.kube.tests.support.golden import expected

GOLDEN = pathlib.Path(__file__).parent / "golden"
SHELLS = [shell for shell in (["sh"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(shell[0])]
SHOWN = (
    "APT_CONFIG DEBIAN_FRONTEND HTTPS_PROXY NETRC SSL_CERT_FILE PIP_CERT PIP_CONFIG_FILE PIP_INDEX_URL "
    "PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST UV_CONFIG_FILE UV_DEFAULT_INDEX UV_INDEX UV_INSECURE_HOST UV_INDEX_STRATEGY"
)
# Writes down its name, its arguments and some variables; plays python3 and pip just as far as the script needs it.
FAKE = f"""#!/bin/sh
name=${{0##*/}}
{{
    printf '%s' "$name"
    shown=$*
    [ "$1" != -c ] || shown="-c (program)${{3+ $3}}"
    printf ' %s\\n' "$shown"
    for variable in {SHOWN}; do
        eval "value=\\${{$variable-}}"
        [ -z "$value" ] || printf '    %s=%s\\n' "$variable" "$value"
    done
}} >> "$TRANSCRIPT"
case "$name $*" in
    *' -m venv '*)
        for folder; do :; done
        /bin/mkdir -p "$folder/bin"
        /bin/cp "$0" "$folder/bin/python"
        ;;
    *' -m pip install uv') /bin/cp "$0" "${{0%/*}}/uv" ;;
    *prefix*) printf '%s\\n' "${{FAKE_PREFIX-}}" ;;
esac
case " ${{FAKE_FAILS-}} " in
    *" $name "*) exit 7 ;;
esac
exit "${{FAKE_CODE:-0}}"
"""


class Room:
    """A folder that stands for an image: programs, the build folder, secrets and what was called."""

    def __init__(self, root: pathlib.Path, programs: t.Sequence[str]) -> None:
        self.root = root
        self.transcript = root / "transcript"
        self.lists = root / "lists"
        self.lists.mkdir()
        (root / "bin").mkdir()
        (root / "secrets").mkdir()
        for program in programs:
            self.add(program)
        for real in ("rm", "ln"):
            (root / "bin" / real).symlink_to(shutil.which(real) or real)

    def add(self, program: str) -> None:
        """Put a program that only writes down its calls on the path."""
        path = self.root / "bin" / program
        path.write_text(FAKE)
        path.chmod(0o755)

    def run(
        self, stack: dict[str, t.Any], shell: list[str], secrets: dict[str, str] | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Do what the RUN instruction of the stack's Dockerfile says; paths of an image become paths of this room."""
        context = build_context(stack_from_data({"base": "x", **stack}, "the stack"))
        for file in context.files:
            text = file.content.decode()
            for old, new in (
                ("/run/secrets", f"{self.root}/secrets"),
                ("/opt/muster/venv", f"{self.root}/venv"),
                ("/var/lib/apt/lists", str(self.lists)),
            ):
                text = text.replace(old, new)
            (self.root / pathlib.Path(file.name).name).write_text(text)
        for name, value in (secrets or {}).items():
            (self.root / "secrets" / name).write_text(value)
        (instruction,) = [line for line in context.dockerfile.splitlines() if line.startswith("RUN ")]
        words = json.loads(instruction[instruction.index('["') :])
        environment = {"PATH": str(self.root / "bin"), "TRANSCRIPT": str(self.transcript), **more}
        command = [
            shutil.which(shell[0]) or shell[0],
            *shell[1:],
            str(self.root / os.path.basename(words[1])),
            *words[2:],
        ]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )

    def calls(self) -> str:
        """What was called since the last look."""
        text = self.transcript.read_text() if self.transcript.exists() else ""
        self.transcript.unlink(missing_ok=True)
        return text.replace(str(self.root), "ROOM")


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """Each shell that an image may have and this machine has too."""
    return t.cast("list[str]", request.param)


def test_a_step_that_fails_ends_later_so_that_its_last_words_arrive(tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, ["sleep"])
    stack = {"packages": ["x"], "package_manager": "apk"}
    done = room.run(stack, ["sh"])
    assert (done.returncode, done.stderr) == (1, "muster.kube: the base image has no apk\n")
    assert room.calls().startswith("sleep 1\n")
    room.add("apk")
    assert room.run(stack, ["sh"]).returncode == 0
    assert "sleep" not in room.calls()


def test_some_shell_is_there() -> None:
    assert ["sh"] in SHELLS


MANAGERS = {"apt": "apt-get", "dnf": "dnf", "microdnf": "microdnf", "yum": "yum", "zypper": "zypper", "apk": "apk"}
CONFIGURED = [
    {"id": "config", "use": "native_config"},
    {"id": "ca", "use": "ca"},
    {"id": "proxy", "use": "environment"},
]


@pytest.mark.parametrize("manager", MANAGERS)
def test_each_manager_is_found_and_called_its_own_way(manager: str, shell: list[str], tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, [MANAGERS[manager]])
    found = []
    for title, stack in {
        "install": {"packages": ["first", "second=1.2-3"]},
        "update": {"update": True},
        "both, with settings from secrets": {"packages": ["first"], "update": True, "secrets": CONFIGURED},
    }.items():
        values = {"config": "x", "ca": "x", "proxy": "# comment\n\nHTTPS_PROXY=http://a b$(c)\n"}
        done = room.run(stack, shell, values)
        assert done.returncode == 0, done.stderr
        assert f"native packages by {MANAGERS[manager]}" in done.stdout
        found.append(f"# {title}\n{room.calls()}")
    assert "\n".join(found) == expected(GOLDEN / f"native-{manager}.txt", "\n".join(found))
    assert room.lists.exists() is (manager != "apt")


@pytest.mark.parametrize(
    ("there", "asked", "used"),
    [
        (["dnf", "yum", "apt-get"], "auto", "dnf"),
        (["microdnf", "yum"], "auto", "microdnf"),
        (["zypper", "apk"], "auto", "zypper"),
        (["dnf", "apt-get"], "apt", "apt-get"),
        (["dnf", "yum"], "yum", "yum"),
    ],
)
def test_the_first_that_is_there_or_the_one_asked_for(
    there: list[str], asked: str, used: str, tmp_path: pathlib.Path
) -> None:
    room = Room(tmp_path, there)
    assert room.run({"packages": ["x"], "package_manager": asked}, ["sh"]).returncode == 0
    assert {line.split()[0] for line in room.calls().splitlines() if not line.startswith(" ")} == {used}


def test_what_is_missing_is_named(tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, [])
    nothing = room.run({"packages": ["x"]}, ["sh"])
    wrong = room.run({"packages": ["x"], "package_manager": "apk"}, ["sh"])
    assert (nothing.returncode, wrong.returncode) == (1, 1)
    assert nothing.stderr.startswith("muster.kube: the base image has no package manager that is known (dnf microdnf")
    assert wrong.stderr == "muster.kube: the base image has no apk\n"


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_manager_that_fails_ends_the_build(manager: str, tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, [MANAGERS[manager]])
    assert room.run({"packages": ["x"]}, ["sh"], FAKE_FAILS=MANAGERS[manager]).returncode == 7
    assert len([line for line in room.calls().splitlines() if not line.startswith(" ")]) == 1


def test_a_restart_that_zypper_advises_is_no_failure(tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, ["zypper"])
    assert [room.run({"packages": ["x"]}, ["sh"], FAKE_CODE=code).returncode for code in ("102", "103", "104")] == [
        0,
        0,
        104,
    ]


def test_a_secret_that_is_missing_or_damaged_is_named(shell: list[str], tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, ["apk"])
    stack = {"packages": ["x"], "secrets": [{"id": "proxy", "use": "environment"}]}
    missing = room.run(stack, shell)
    assert (missing.returncode, missing.stderr) == (1, "muster.kube: the build secret proxy is not mounted\n")
    for bad in ("export A=b", "A", "=x", "1A=b", "A-B=c"):
        damaged = room.run(stack, shell, {"proxy": bad})
        assert damaged.returncode == 1
        assert damaged.stderr == "muster.kube: a line of the build secret proxy is not NAME=value\n"
    assert room.calls() == ""


HASHED = {"version": "==1", "hashes": ["sha256:aa"]}
LOCK = {
    "_meta": {
        "requires": {"python_version": "3.11"},
        "sources": [
            {"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": True},
            {"name": "extra", "url": "http://extra.example:8080/simple", "verify_ssl": False},
        ],
    },
    "default": {"six": HASHED, "torch": {**HASHED, "index": "extra"}},
}
PYTHONS: dict[str, dict[str, t.Any]] = {
    "packages": {"python": {"packages": ["six", "idna>=3"]}},
    "requirements, upgraded, isolated": {
        "python": {"requirements": "six\n", "packages": ["idna"], "upgrade_pip": True, "isolated": True}
    },
    "requirements with hashes": {"python": {"requirements": "six==1 --hash=sha256:aa\n", "packages": ["idna"]}},
    "lock with two sources": {"python": {"pipfile_lock": LOCK}},
    "pyproject": {
        "python": {"pyproject": "[project]\nname='x'\nrequires-python='>=3.11,<4'\ndependencies=['six']\n"},
    },
    "indexes, one from a secret": {
        "python": {"packages": ["six"], "indexes": [{"secret": "url"}, {"url": "https://more.example/simple"}]},
        "secrets": [
            {"id": "url"},
            {"id": "ca", "use": "ca"},
            {"id": "netrc", "use": "netrc"},
            {"id": "pip", "use": "pip_config"},
            {"id": "uv", "use": "uv_config"},
        ],
    },
}


@pytest.mark.parametrize("installer", ["pip", "uv", "uv-of-the-base"])
def test_python_packages_by_each_installer(installer: str, shell: list[str], tmp_path: pathlib.Path) -> None:
    found = []
    for number, (title, stack) in enumerate(PYTHONS.items()):
        (tmp_path / str(number)).mkdir()
        room = Room(tmp_path / str(number), ["python3", *(["uv"] if installer == "uv-of-the-base" else [])])
        asked = {**stack, "python": {**stack["python"], "installer": installer[:3].rstrip("-")}}
        values = dict.fromkeys(("ca", "netrc", "pip", "uv"), "x") | {"url": "https://me:word@private.example/simple"}
        done = room.run(asked, shell, values)
        assert done.returncode == 0, done.stderr
        assert "word" not in done.stdout + done.stderr
        found.append(f"# {title}\n{room.calls()}")
    assert "\n".join(found) == expected(GOLDEN / f"python-{installer}.txt", "\n".join(found))


def test_a_base_without_python_is_told(tmp_path: pathlib.Path) -> None:
    done = Room(tmp_path, []).run({"python": {"packages": ["six"]}}, ["sh"])
    assert done.returncode == 1
    assert done.stderr.startswith("muster.kube: the base image has no python3; add it to packages")


@pytest.mark.parametrize("isolated", [True, False])
def test_a_python_that_cannot_make_an_environment_is_told(isolated: bool, tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, ["python3"])
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\n[ $1 = -c ]\n")
    done = room.run({"python": {"packages": ["six"], "isolated": isolated}}, ["sh"])
    assert done.returncode == 1
    assert done.stderr == (
        "muster.kube: python3 of the base cannot make a virtual environment; "
        "on Debian and Ubuntu add python3-venv to packages\n"
    )


def test_a_base_that_lives_in_an_environment_keeps_it(tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, ["python3"])
    own = tmp_path / "own"
    (own / "bin").mkdir(parents=True)
    shutil.copy(tmp_path / "bin" / "python3", own / "bin" / "python")
    assert room.run({"python": {"packages": ["six"]}}, ["sh"], FAKE_PREFIX=str(own)).returncode == 0
    assert (tmp_path / "venv").resolve() == own.resolve()
    assert "venv --" not in room.calls()


def test_another_python_than_asked_for_ends_the_build(tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, ["python3"])
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    fake = tmp_path / "venv" / "bin" / "python"
    fake.write_text("#!/bin/sh\n[ $1 != -c ]\n")
    fake.chmod(0o755)
    done = room.run({"python": {"pipfile_lock": LOCK}}, ["sh"])
    assert done.returncode == 1
    assert done.stderr == "muster.kube: the stack asks for Python ==3.11.*, which the base image does not have\n"


def test_an_installer_that_fails_ends_the_build(tmp_path: pathlib.Path) -> None:
    room = Room(tmp_path, ["python3", "uv"])
    done = room.run({"python": {"pipfile_lock": LOCK, "installer": "uv"}}, ["sh"], FAKE_FAILS="uv")
    assert done.returncode == 7
    assert room.calls().count("uv pip install") == 1
