# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests written for Amun, translated into the options of an inspection.

Fields keep their meaning. What has no meaning without Amun's server is named, not dropped in silence; what nobody knows
is refused.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import (
    hardware_from_data,
    is_cpu_vendor,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, plain_value
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity

WHERE = "specification"
# Amun's server wrote these into the specifications it kept.
_SERVER_KEYS = ("@created", "@amun_service_version", "@amun_api_url", "@amun_deployment_name")
_IGNORED_KEYS = ("send_messages", "force_sync", *_SERVER_KEYS)
# An earlier version of Amun had the last two.
_COUNT_KEYS = (("batch_size", "repetitions", 1), ("parallelism", "parallelism", 1), ("allowed_failures",) * 2 + (0,))
_KEYS = (
    "base",
    "identifier",
    "packages",
    "python_packages",
    "package_manager",
    "python",
    "environment",
    "files",
    "script",
    "update",
    "upgrade_pip",
    "batch_size",
    "parallelism",
    "allowed_failures",
    "build",
    "run",
    *_IGNORED_KEYS,
)
_PYTHON_KEYS = ("requirements", "requirements_locked", "runtime_environment", "constraints")
_PYTHON_IGNORED = ("runtime_environment", "constraints")
_PACKAGE_MANAGERS = ("micropipenv", "pipenv")
_AMOUNTS = ("cpu", "memory")
_HARDWARE_KEYS = ("cpu_family", "cpu_model", "processor", "physical_cpus")
_SCRIPT_SCHEMES = ("http://", "https://")
# Every script ran as this user, in this folder, which all users could write to.
AMUN_USER = 1042
AMUN_HOME = "/home/amun"
# What an identifier of ours can hold; Amun took any text, and failed late when it was long.
_IDENTIFIER_LENGTH = 22
_DIGEST_LENGTH = 6
_NO_NAME = re.compile(r"[^a-z0-9]+")
_PACKAGE_NAME = re.compile(r"[A-Za-z0-9._-]+")


def from_amun(data: t.Any, script_checksum: str | None = None) -> Data:
    """The options of an inspection that does what an Amun request asks for.

    Besides options there is `ignored`: fields that were understood and have no effect. Amun fetched scripts by URL and
    ran whatever came; here the checksum must be known before, and an Amun request has no place for it.
    """
    fields = Fields(plain_value(data, WHERE), WHERE)
    fields.only(_KEYS)
    options: Data = {"stack": _stack(fields)}
    identifier = fields.text("identifier")
    if identifier is not None:
        options["identifier"] = _identifier(identifier)
    script = _script(fields, script_checksum)
    if script is not None:
        options["script"] = script
        options |= _place(fields)
        if _is_python(script):
            options["interpreter"] = "python3"
    for key, option, least in _COUNT_KEYS:
        if fields.get(key) is not None:
            options[option] = fields.whole(key, least, INT32)
    for step in ("build", "run"):
        found = _step(fields, step)
        if found:
            options[step] = found
    options["ignored"] = _ignored(fields)
    return options


def _identifier(given: str) -> str:
    """The request's word for its inspections in the form that names have; a long one keeps its beginning."""
    plain = _NO_NAME.sub("-", given.lower()).strip("-")
    if plain and len(plain) <= _IDENTIFIER_LENGTH:
        return plain
    digest = hashlib.sha256(given.encode()).hexdigest()[:_DIGEST_LENGTH]
    beginning = plain[: _IDENTIFIER_LENGTH - _DIGEST_LENGTH - 1].rstrip("-")
    return f"{beginning}-{digest}" if beginning else digest


def _stack(fields: Fields) -> Data:
    """The parts that make the image; Amun's lists are handed on to the reader of stacks, which looks into them."""
    stack: Data = {"base": fields.required_text("base"), "user": str(AMUN_USER), "workdir": AMUN_HOME}
    for key in ("packages", "environment", "files"):
        if fields.sequence(key):
            stack[key] = fields.sequence(key)
    if fields.flag("update"):
        stack["update"] = True
    python = _python(fields)
    if python:
        stack["python"] = python
    return stack


def _python(fields: Fields) -> Data:
    """Python packages, and Pipfile with its lock, which Amun took only together."""
    python: Data = {}
    locked = _locked_packages(fields)
    packages = [package for package in fields.sequence("python_packages") if package not in locked]
    if packages:
        python["packages"] = packages
    if fields.flag("upgrade_pip"):
        python["upgrade_pip"] = True
    fields.choice("package_manager", _PACKAGE_MANAGERS, "micropipenv")
    inner = Fields(fields.mapping("python"), f"{WHERE}: python")
    inner.only(_PYTHON_KEYS)
    pipfile, lock = inner.mapping("requirements"), inner.mapping("requirements_locked")
    if bool(pipfile) != bool(lock):
        absent = "requirements_locked" if pipfile else "requirements"
        raise inner.fail(absent, "requirements and requirements_locked go together, and only one of them is given")
    if pipfile:
        python["pipfile"], python["pipfile_lock"] = dict(pipfile), dict(lock)
    return python


def _locked_packages(fields: Fields) -> list[str]:
    """The Python packages that the lock has as well: Amun's script saw only the environment of the lock."""
    lock = Fields(fields.mapping("python"), f"{WHERE}: python").mapping("requirements_locked")
    default = lock.get("default")
    names = {_normal(str(name)) for name in default} if isinstance(default, dict) else set()
    found = []
    for package in fields.sequence("python_packages"):
        name = _PACKAGE_NAME.match(package) if isinstance(package, str) else None
        if name is not None and _normal(name[0]) in names:
            found.append(package)
    return found


def _normal(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _script(fields: Fields, checksum: str | None) -> Data | None:
    """The script: inline, or a URL whose content is known by its checksum; none means that only the image is built.

    A missing checksum is complained of where the URL is fetched, since only there the one to give is known.
    """
    script = fields.text("script")
    if script is None or not script.startswith(_SCRIPT_SCHEMES):
        if checksum is not None:
            raise BadInput("use", "checksum", f"the script of the {WHERE} is not given by URL")
        return None if script is None else {"content": script}
    return {"url": script, "checksum": checksum}


def _place(fields: Fields) -> Data:
    """Where and as whom Amun ran the script; files of the request in that folder are put into the one of the pod."""
    files = [file for file in fields.sequence("files") if isinstance(file, dict)]
    inside = [file for file in files if str(file.get("path")).startswith(f"{AMUN_HOME}/")]
    names = [entry.get("name") for entry in fields.sequence("environment") if isinstance(entry, dict)]
    place: Data = {"security": {"run_as_user": AMUN_USER}, "workdir": AMUN_HOME, "home": AMUN_HOME}
    if "HOME" not in names:
        place["env"] = {"HOME": AMUN_HOME}
    return {**place, "files": inside} if inside else place


def _is_python(script: Data) -> bool:
    """Whether only Amun made a Python program of the script: it ran everything by Python, first line or not."""
    content, url = script.get("content"), script.get("url", "")
    return not content.startswith("#!") if content is not None else url.partition("?")[0].endswith(".py")


def _step(fields: Fields, step: str) -> Data:
    """Requests and hardware of build or run; Amun's amounts are request and limit at once."""
    outer = Fields(fields.mapping(step), f"{WHERE}: {step}")
    outer.only(("requests",))
    inner = Fields(outer.mapping("requests"), f"{WHERE}: {step}.requests")
    inner.only((*_AMOUNTS, "hardware"))
    amounts = {key: _amount(inner, key) for key in _AMOUNTS if inner.get(key) is not None}
    found: Data = {"requests": amounts, "limits": dict(amounts)} if amounts else {}
    if inner.get("hardware") is not None:
        found["hardware"] = _hardware(inner)
    return found


def _amount(inner: Fields, key: str) -> str:
    """A quantity, as text."""
    value = inner.get(key)
    try:
        amount = parse_quantity(value)
    except BadInput as error:
        raise inner.fail(key, error.cause) from error
    if amount <= 0:
        raise inner.fail(key, f"more than nothing is needed, not {value!r}")
    return str(value).strip()


def _hardware(inner: Fields) -> Data:
    """Family and model by the labels of node-feature-discovery; what that has no label for, by Amun's own labels."""
    asked = Fields(inner.get("hardware"), f"{inner.where}.hardware")
    asked.only(_HARDWARE_KEYS)
    cpu: Data = {
        "family": asked.whole("cpu_family", 0, INT32, required=True),
        "model": asked.whole("cpu_model", 0, INT32, required=True),
    }
    labels: dict[str, str] = {}
    processor = asked.required_text("processor")
    if is_cpu_vendor(processor):
        cpu["vendor"] = processor
    else:
        labels["processor"] = processor
    if asked.get("physical_cpus") is not None:
        labels["PHYSICAL_CPUS"] = str(asked.whole("physical_cpus", 1, INT32))
    found: Data = {"cpu": cpu, "node_selector": labels} if labels else {"cpu": cpu}
    hardware_from_data(found, asked.where)
    return found


def _ignored(fields: Fields) -> list[str]:
    """Fields that say nothing here, in the order of Amun's documentation."""
    python = [key for key in _PYTHON_IGNORED if fields.mapping("python").get(key) is not None]
    keys = [key for key in ("package_manager", *_IGNORED_KEYS) if fields.get(key) is not None]
    packages = [f"python_packages: {package}" for package in _locked_packages(fields)]
    return [*(f"python.{key}" for key in python), *packages, *keys]
