# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the catalogue of programs and processes, and the YAML files that lie in Go modules."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    SERVICE_FORWARDER,
    Catalogue,
    Conversion,
    ProcessSpec,
    Program,
    ServingCertificate,
    Webhook,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

CATALOGUE_FILE = "programs.yml"
_PROCESS_KEYS = frozenset(
    {"name", "program", "binary", "ports", "arguments", "environment", "files", "copy", "identity", "health"}
    | {"crds", "certificates", "objects", "webhooks", "conversion", "markers", "package", "alternatives"}
    | {"clears", "needs", "excludes", "of_real_node"}
)


def load_documents(path: pathlib.Path) -> list[t.Any]:
    """All documents of a YAML file."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise MusterError("read", str(path), str(error)) from error
    return load_yaml(text, str(path))


def read_catalogue(files: pathlib.Path) -> Catalogue:
    """The catalogue of a directory of files."""
    path = files / CATALOGUE_FILE
    documents = load_documents(path)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise BadInput("read", str(path), "it does not hold one mapping")
    try:
        return build_catalogue(documents[0])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput("read", str(path), f"{type(error).__name__}: {error}") from error


def build_catalogue(data: dict[str, t.Any]) -> Catalogue:
    """The catalogue as typed values; unknown names are refused here, not at run time."""
    programs = {
        name: Program(
            name, entry["module"], entry["version"], tuple(entry["binaries"].items()), entry.get("source", "")
        )
        for name, entry in data["programs"].items()
    }
    catalogue = Catalogue(
        programs=programs,
        control_plane=tuple(_build_process(entry["name"], entry) for entry in data["control_plane"]),
        operators={name: _build_process(name, entry) for name, entry in data["operators"].items()},
        registry=_build_process("registry", data["registry"]) if "registry" in data else None,
        services=_build_process(SERVICE_FORWARDER, data["services"]) if "services" in data else None,
        real_node=tuple(_build_process(entry["name"], entry) for entry in data.get("real_node", ())),
    )
    for process in catalogue.all_processes():
        if process.package:
            continue
        if process.program not in programs:
            raise ValueError(f"{process.name} names the unknown program {process.program!r}")
        if process.binary not in dict(programs[process.program].binaries):
            raise ValueError(f"{process.name} names the unknown binary {process.binary!r}")
    for operator in catalogue.operators.values():
        for other in (*operator.needs, *operator.excludes):
            if other not in catalogue.operators:
                raise ValueError(f"{operator.name} names the unknown operator {other!r}")
    return catalogue


def _build_process(name: str, entry: dict[str, t.Any]) -> ProcessSpec:
    """One process of the catalogue."""
    unknown = sorted(set(entry) - _PROCESS_KEYS)
    if unknown:
        raise ValueError(f"{name} has the unknown key {unknown[0]!r}")
    identity = entry.get("identity", {})
    return ProcessSpec(
        name=name,
        program="" if "package" in entry else entry["program"],
        binary=entry["binary"],
        ports=tuple(entry["ports"]),
        arguments=tuple(entry["arguments"]),
        health_url=entry["health"]["url"],
        environment=tuple(entry.get("environment", {}).items()),
        files=tuple(entry.get("files", {}).items()),
        copies=tuple(entry.get("copy", ())),
        user=identity.get("user", ""),
        groups=tuple(identity.get("groups", ())),
        certificate=_build_certificate(entry.get("certificates")),
        webhooks=tuple(map(_build_webhook, entry.get("webhooks", ()))),
        conversion=_build_conversion(entry.get("conversion")),
        package=entry.get("package", ""),
        of_real_node=entry.get("of_real_node", False),
        **{key: tuple(entry.get(key, ())) for key in ("crds", "objects", "markers", "alternatives")},
        **{key: tuple(entry.get(key, ())) for key in ("clears", "needs", "excludes")},
    )


def _build_certificate(entry: dict[str, t.Any] | None) -> ServingCertificate | None:
    """The serving certificate of an operator, if it has one."""
    if entry is None:
        return None
    return ServingCertificate(entry["authority"], tuple(entry["names"]), entry.get("directory", ""))


def _build_webhook(entry: dict[str, t.Any]) -> Webhook:
    """One webhook configuration of an operator."""
    selectors = tuple(entry.get("object_selectors", {}).items())
    return Webhook(entry["manifest"], entry["kind"], entry["name"], entry["port"], selectors)


def _build_conversion(entry: dict[str, t.Any] | None) -> Conversion | None:
    """Where an operator converts the versions of its kinds, if it does."""
    return None if entry is None else Conversion(entry["port"], entry["path"], tuple(entry["definitions"]))
