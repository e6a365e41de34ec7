# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A software stack: what an image is made of, read strictly, and the hash that stands for it.

Nothing here holds a secret. A build secret is named; its value is mounted while the image is built. A URL with a
password in it is refused, since it would stay in the image.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import re
import tomllib
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    DNS_LENGTH,
    Data,
    Fields,
    canonical_json,
    parse_json,
    plain_value,
    without_none,
)

Installer = t.Literal["pip", "uv"]
PackageManager = t.Literal["auto", "apt", "dnf", "microdnf", "yum", "zypper", "apk"]
SecretUse = t.Literal["mount", "environment", "ca", "netrc", "pip_config", "uv_config", "native_config"]

INSTALLERS: tuple[Installer, ...] = t.get_args(Installer)
PACKAGE_MANAGERS: tuple[PackageManager, ...] = t.get_args(PackageManager)
SECRET_USES: tuple[SecretUse, ...] = t.get_args(SecretUse)
DEFAULT_MODE = "0644"

STACK_KEYS = (
    "base",
    "platform",
    "packages",
    "package_manager",
    "update",
    "python",
    "files",
    "environment",
    "labels",
    "user",
    "workdir",
    "secrets",
    "dockerfile",
)
_PYTHON_KEYS = (
    "packages",
    "requirements",
    "pipfile",
    "pipfile_lock",
    "pyproject",
    "extras",
    "indexes",
    "installer",
    "upgrade_pip",
    "isolated",
)
_INDEX_KEYS = ("name", "url", "secret", "verify")
_FILE_KEYS = ("path", "content", "content_base64", "mode", "owner", "before_packages")
_SECRET_KEYS = ("id", "use", "secret", "key", "file")
_WITH_OWN_DOCKERFILE = ("dockerfile", "files", "secrets", "platform")

_BASE = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9]+(?:/[a-z0-9.]+)?")
_NATIVE_PACKAGE = re.compile(r"[A-Za-z0-9@][A-Za-z0-9@.+_:~=<>!*/^()%-]*")
_PYTHON_PACKAGE = re.compile(r"[A-Za-z0-9][ -\[\]-~]*")
_EXTRA = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_INDEX_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INDEX_URL = re.compile(r"(?:https?|file)://[!-~]+")
_MODE = re.compile(r"[0-7]{3,4}")
_ACCOUNT = r"(?:[a-z_][a-z0-9_.-]*|[0-9]+)"
_OWNER = re.compile(rf"{_ACCOUNT}(?::{_ACCOUNT})?")
_PATH = re.compile(r"[ -~]+")
_WORKDIR = re.compile(r"/[A-Za-z0-9._/@+~-]*")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_SECRET_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_SECRET_KEY = re.compile(r"[A-Za-z0-9_.-]{1,253}")
_URL_ACCOUNT = re.compile(r"(https?://[^/\s@]*|[a-z+]+://[^/\s@]*:[^/\s@]*)@")
# Words by which services take a password or token in the query of a URL.
_URL_TOKEN = re.compile(
    r"[a-z+]+://[^\s\"'<>]*[?&](?:[a-z_-]*token|pass(?:word|wd)?|[a-z_-]*secret|api[_-]?key|auth|sig(?:nature)?|"
    r"x-amz-(?:signature|credential))=([^&\s\"'<>#]+)",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"\$\{\w+\}|\$\w+")


@dataclasses.dataclass(frozen=True, slots=True)
class Index:
    """A place Python packages come from; the URL is given, or is the content of a build secret."""

    name: str
    url: str | None = None
    secret: str | None = None
    verify: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class PythonStack:
    """What goes into the virtual environment.

    The first index replaces the default one, the others are searched as well. An isolated environment does not see
    the packages that the base brings.
    """

    packages: tuple[str, ...] = ()
    requirements: str | None = None
    pipfile: Data | None = None
    pipfile_lock: Data | None = None
    pyproject: str | None = None
    extras: tuple[str, ...] = ()
    indexes: tuple[Index, ...] = ()
    installer: Installer = "pip"
    upgrade_pip: bool = False
    isolated: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """A file of the image, or of the context when the Dockerfile is the user's own."""

    path: str
    content: bytes
    mode: str = DEFAULT_MODE
    owner: str | None = None
    before_packages: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class BuildSecret:
    """A value needed while building, by name: where the engine finds it, and what it is used for.

    secret and key name an entry of a Kubernetes Secret, file a file for the local engine.
    """

    id: str
    use: SecretUse = "mount"
    secret: str | None = None
    key: str | None = None
    file: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """What an image is made of; either base and what is added to it, or the user's own Dockerfile."""

    base: str | None
    platform: str | None = None
    packages: tuple[str, ...] = ()
    package_manager: PackageManager = "auto"
    update: bool = False
    python: PythonStack | None = None
    files: tuple[File, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    workdir: str | None = None
    secrets: tuple[BuildSecret, ...] = ()
    dockerfile: str | None = None


def stack_from_data(data: Mapping[str, t.Any], where: str) -> Stack:
    """A stack from plain values; where names it in complaints."""
    fields = Fields(plain_value(data, where), where)
    fields.only(STACK_KEYS)
    dockerfile = fields.text("dockerfile")
    secrets = _secrets(fields)
    python = _python(fields, [secret.id for secret in secrets])
    stack = Stack(
        base=_base(fields, dockerfile),
        platform=_matching(fields, "platform", _PLATFORM, "a platform such as linux/amd64"),
        packages=_texts(fields, "packages", _NATIVE_PACKAGE, "the name of a package"),
        package_manager=fields.choice("package_manager", PACKAGE_MANAGERS, "auto"),
        update=fields.flag("update"),
        python=python,
        files=_files(fields, own=dockerfile is not None),
        environment=_environment(fields),
        labels=_labels(fields),
        user=_matching(fields, "user", _OWNER, "a user, with or without a group, such as 1000:1000"),
        workdir=_workdir(fields),
        secrets=secrets,
        dockerfile=dockerfile,
    )
    if dockerfile is not None:
        _refuse_beside_dockerfile(fields)
    _refuse_passwords(fields, stack)
    return stack


def stack_data(stack: Stack) -> Data:
    """Plain values from which stack_from_data makes the same stack again; equal stacks give equal values."""
    python = stack.python
    return without_none(
        {
            "base": stack.base,
            "platform": stack.platform,
            "packages": list(stack.packages) or None,
            "package_manager": None if stack.package_manager == "auto" else stack.package_manager,
            "update": stack.update or None,
            "python": None if python is None else _python_data(python),
            "files": [_file_data(file) for file in stack.files] or None,
            "environment": dict(stack.environment) or None,
            "labels": dict(stack.labels) or None,
            "user": stack.user,
            "workdir": stack.workdir,
            "secrets": [without_none(dataclasses.asdict(secret)) for secret in stack.secrets] or None,
            "dockerfile": stack.dockerfile,
        }
    )


def spec_hash(stack: Stack, generator_version: str) -> str:
    """The identity of the image: a hash over everything that shapes it.

    A secret counts by its name and use. Where it is kept may differ from one cluster to the next.
    """
    data = stack_data(stack)
    if stack.secrets:
        data["secrets"] = [{"id": secret.id, "use": secret.use} for secret in stack.secrets]
    text = canonical_json({"generator": generator_version, "stack": data})
    return hashlib.sha256(text.encode()).hexdigest()


def password_in(text: str) -> bool:
    """Whether a text holds a URL with a password or token, which would be readable in the image; variables are none."""
    found = [match[1].split("://", 1)[1] for match in _URL_ACCOUNT.finditer(text)]
    found += [match[1] for match in _URL_TOKEN.finditer(text)]
    return any(_VARIABLE.sub("", account).strip(":") for account in found)


def _file_data(file: File) -> Data:
    """A file as plain values: content as text where it is text."""
    try:
        content = {"content": file.content.decode()}
    except UnicodeDecodeError:
        content = {"content_base64": base64.b64encode(file.content).decode()}
    more = {"owner": file.owner, "before_packages": file.before_packages or None}
    return without_none({"path": file.path, "mode": file.mode, **content, **more})


def _python_data(python: PythonStack) -> Data:
    """The Python part as plain values."""
    return without_none(
        {
            "packages": list(python.packages) or None,
            "requirements": python.requirements,
            "pipfile": python.pipfile,
            "pipfile_lock": python.pipfile_lock,
            "pyproject": python.pyproject,
            "extras": list(python.extras) or None,
            "indexes": [without_none(dataclasses.asdict(index)) for index in python.indexes] or None,
            "installer": python.installer,
            "upgrade_pip": python.upgrade_pip or None,
            "isolated": python.isolated or None,
        }
    )


def _matching(fields: Fields, key: str, pattern: re.Pattern[str], what: str) -> str | None:
    """A text of a known form, or None."""
    value = fields.text(key)
    if value is not None and not pattern.fullmatch(value):
        raise fields.fail(key, f"{value!r} is not {what}")
    return value


def _base(fields: Fields, dockerfile: str | None) -> str | None:
    """The image to start from, needed unless the Dockerfile names it."""
    base = _matching(fields, "base", _BASE, "the name of an image")
    if base is None and dockerfile is None:
        raise fields.fail("base", "it is missing; name the image to start from")
    return base


def _texts(fields: Fields, key: str, pattern: re.Pattern[str], what: str) -> tuple[str, ...]:
    """A list of texts of a known form; a second mention of the same one is dropped."""
    for index, value in enumerate(fields.sequence(key)):
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise fields.fail(f"{key}[{index}]", f"{value!r} is not {what}")
    return tuple(dict.fromkeys(fields.sequence(key)))


def _refuse_beside_dockerfile(fields: Fields) -> None:
    """The user's own Dockerfile is used as it is; whatever would have to be added to it is refused, not dropped."""
    for key, value in fields.data.items():
        if key not in _WITH_OWN_DOCKERFILE and value not in (None, False, [], {}) and value != "auto":
            raise fields.fail(key, "beside an own dockerfile it would have no effect; write it into the dockerfile")


def _refuse_passwords(fields: Fields, stack: Stack) -> None:
    """Whatever becomes part of the image or of its record holds no URL with a password; secrets are named instead."""
    cause = "a URL has a password in it, which would stay in the image; name a build secret instead"
    texts = {
        "packages": "\n".join(stack.packages),
        "dockerfile": stack.dockerfile or "",
        **{f"environment.{name}": value for name, value in stack.environment},
        **{f"labels.{name}": value for name, value in stack.labels},
        **{f"files: {file.path}": file.content.decode("latin-1") for file in stack.files},
    }
    for key, text in texts.items():
        if password_in(text):
            raise fields.fail(key, cause)


def _secrets(fields: Fields) -> tuple[BuildSecret, ...]:
    """The build secrets, each with a name of its own; one for each use, and any number that is only mounted."""
    found: list[BuildSecret] = []
    for index, data in enumerate(fields.sequence("secrets")):
        inner = Fields(data, f"{fields.where}: secrets[{index}]")
        inner.only(_SECRET_KEYS)
        inner.required_text("id")
        secret = BuildSecret(
            id=_matching(inner, "id", _SECRET_ID, "a name of at most 63 letters, digits, '.', '_' and '-'") or "",
            use=inner.choice("use", SECRET_USES, "mount"),
            secret=inner.dns("secret", "the name of a Secret", DNS_LENGTH) if inner.get("secret") else None,
            key=_matching(inner, "key", _SECRET_KEY, "a key of a Secret"),
            file=inner.text("file"),
        )
        if any(secret.id == other.id for other in found):
            raise inner.fail("id", f"{secret.id} is there twice")
        if secret.use not in ("mount", "environment") and any(secret.use == other.use for other in found):
            raise inner.fail("use", f"another secret is the {secret.use} already")
        found.append(secret)
    return tuple(found)


def _workdir(fields: Fields) -> str | None:
    """The directory the image starts in."""
    return _matching(fields, "workdir", _WORKDIR, "an absolute path of letters, digits and . _ / @ + ~ -")


def _environment(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Variables and values, from a mapping or from a list of name and value; their order has no meaning."""
    value = fields.get("environment")
    if isinstance(value, list):
        pairs = []
        for index, data in enumerate(value):
            inner = Fields(data, f"{fields.where}: environment[{index}]")
            inner.only(("name", "value"))
            pairs.append((inner.required_text("name"), inner.get("value")))
    else:
        pairs = list(fields.mapping("environment").items())
    found: dict[str, str] = {}
    for name, content in pairs:
        if not _ENVIRONMENT_NAME.fullmatch(name):
            raise fields.fail("environment", f"{name!r} cannot be the name of a variable")
        if name in found:
            raise fields.fail("environment", f"{name} is there twice")
        found[name] = _quotable(fields, f"environment.{name}", content)
    return tuple(sorted(found.items()))


def _labels(fields: Fields) -> tuple[tuple[str, str], ...]:
    """The labels of the image."""
    found = {}
    for name, content in fields.mapping("labels").items():
        if not _LABEL_NAME.fullmatch(name):
            raise fields.fail("labels", f"{name!r} cannot be the name of a label")
        found[name] = _quotable(fields, f"labels.{name}", content)
    return tuple(sorted(found.items()))


def _quotable(fields: Fields, key: str, value: t.Any) -> str:
    """A value that a Dockerfile can hold: one line. Whole numbers are taken as written, other types are unclear."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise fields.fail(key, f"a text is needed, not {value!r}; quote it")
    if "\n" in value or "\0" in value:
        raise fields.fail(key, "a Dockerfile cannot hold a value with a line break in it; use a file instead")
    return value


def _files(fields: Fields, *, own: bool) -> tuple[File, ...]:
    """The files; each path once."""
    found: dict[str, File] = {}
    for index, data in enumerate(fields.sequence("files")):
        inner = Fields(data, f"{fields.where}: files[{index}]")
        inner.only(_FILE_KEYS)
        path = _file_path(inner, own=own)
        if path in found:
            raise inner.fail("path", f"{path} is there twice")
        if own and (inner.get("owner") or inner.get("before_packages")):
            raise inner.fail("owner", "beside an own dockerfile it would have no effect; write it into the dockerfile")
        found[path] = File(
            path=path,
            content=file_content(inner),
            mode=(_matching(inner, "mode", _MODE, "a mode such as '0644'") or DEFAULT_MODE).rjust(4, "0"),
            owner=_matching(inner, "owner", _OWNER, "a user, with or without a group, such as 1000:1000"),
            before_packages=inner.flag("before_packages"),
        )
    return tuple(found.values())


def _file_path(inner: Fields, *, own: bool) -> str:
    """Where a file goes: an absolute path in the image, or a relative one in the context of an own Dockerfile."""
    path = inner.required_text("path")
    if not _PATH.fullmatch(path):
        raise inner.fail("path", f"{path!r} has characters that builders cannot copy to; only printable ASCII works")
    if own and path.startswith("/"):
        raise inner.fail("path", f"{path} must be relative: beside an own dockerfile, files go into the build context")
    if not own and not path.startswith("/"):
        raise inner.fail("path", f"{path} must be absolute")
    parts = path.removeprefix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise inner.fail("path", f"{path} must name a file without '.', '..' and empty parts")
    if own and parts[0] in ("Dockerfile", ".dockerignore", ".containerignore"):
        raise inner.fail("path", f"{path} is the builder's own")
    return path


def file_content(inner: Fields) -> bytes:
    """The bytes of a file, given as text or in base64."""
    text, coded = inner.get("content"), inner.get("content_base64")
    if (text is None) == (coded is None):
        raise inner.fail("content", "give either content or content_base64")
    if text is not None:
        if not isinstance(text, str):
            raise inner.fail("content", f"a text is needed, not {text!r}; quote it")
        return text.encode()
    if not isinstance(coded, str):
        raise inner.fail("content_base64", f"a text is needed, not {coded!r}")
    try:
        return base64.b64decode("".join(coded.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise inner.fail("content_base64", f"it is no base64: {error}") from error


def _python(fields: Fields, secret_ids: Sequence[str]) -> PythonStack | None:
    """The Python part, or None when there is none."""
    if fields.get("python") is None:
        return None
    inner = Fields(fields.get("python"), f"{fields.where}: python")
    inner.only(_PYTHON_KEYS)
    python = PythonStack(
        packages=_texts(inner, "packages", _PYTHON_PACKAGE, "a package as in a requirements file"),
        requirements=inner.text("requirements"),
        pipfile=_document(inner, "pipfile", _toml),
        pipfile_lock=_document(inner, "pipfile_lock", parse_json),
        pyproject=inner.text("pyproject"),
        extras=_texts(inner, "extras", _EXTRA, "the name of an extra"),
        indexes=_indexes(inner, secret_ids),
        installer=inner.choice("installer", INSTALLERS, "pip"),
        upgrade_pip=inner.flag("upgrade_pip"),
        isolated=inner.flag("isolated"),
    )
    if python.pyproject is not None:
        _toml(python.pyproject, f"{inner.where}: pyproject")
    elif python.extras:
        raise inner.fail("extras", "they belong to a pyproject, and none is given")
    for key in _PYTHON_KEYS:
        if key != "indexes" and password_in(canonical_json(inner.get(key))):
            raise inner.fail(key, "a URL has a password in it, which would stay in the image; use an index by secret")
    return python


def _toml(text: str, where: str) -> Data:
    """The value of a TOML text."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput("read", where, f"it is no TOML: {error}") from error


def _document(inner: Fields, key: str, parse: t.Callable[[str, str], t.Any]) -> Data | None:
    """A file given as text or already read into values."""
    value = inner.get(key)
    where = f"{inner.where}: {key}"
    if isinstance(value, str):
        value = plain_value(parse(value, where), where)
    if value is not None and not isinstance(value, dict):
        raise inner.fail(key, f"a text or a mapping is needed, this is a {type(value).__name__}")
    return value


def _indexes(inner: Fields, secret_ids: Sequence[str]) -> tuple[Index, ...]:
    """The package indexes, each with a name of its own."""
    found: list[Index] = []
    for number, data in enumerate(inner.sequence("indexes")):
        one = Fields(data, f"{inner.where}: indexes[{number}]")
        one.only(_INDEX_KEYS)
        index = Index(
            name=_matching(one, "name", _INDEX_NAME, "a name of letters, digits, '.', '_' and '-'") or f"index{number}",
            url=_matching(one, "url", _INDEX_URL, "a URL of http, https or file"),
            secret=_matching(one, "secret", _SECRET_ID, "the id of a build secret"),
            verify=one.get("verify") is None or one.flag("verify"),
        )
        _check_index(one, index, secret_ids)
        if any(index.name == other.name for other in found):
            raise one.fail("name", f"{index.name} is there twice")
        found.append(index)
    return tuple(found)


def _check_index(one: Fields, index: Index, secret_ids: Sequence[str]) -> None:
    """One source for the URL, and no password in it."""
    if (index.url is None) == (index.secret is None):
        raise one.fail("url", "give either url or secret")
    if index.url is not None and "@" in index.url.split("://", 1)[1].split("/", 1)[0]:
        raise one.fail("url", "a user or password in it would stay in the image; put the URL into a build secret")
    if index.url is not None and set("?#") & set(index.url):
        raise one.fail("url", "a query in it would stay in the image; put the URL into a build secret")
    if index.secret is not None and index.secret not in secret_ids:
        raise one.fail("secret", f"{index.secret} is no id in secrets")
    if index.secret is not None and not index.verify:
        raise one.fail("verify", "it cannot be switched off for a URL from a secret; use a CA secret")
