# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the HTTP service: arguments of its program, which variables of the environment may give too."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

PREFIX = "MUSTER_HTTP_"


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What callers may use up: connections, requests that are worked on at a time and by how many threads, and seconds.

    header_seconds is how long the head of a request may take, and how long a connection may be idle; body_seconds the
    same for a body; work_seconds is how long a whole request may take before its connection is closed.
    """

    connections: int = 1000
    requests: int = 64
    threads: int = 8
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    work_seconds: float = 120.0


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceOptions:
    """Where the service listens, for whom, and how; without a certificate it speaks plain HTTP."""

    host: str = "0.0.0.0"
    port: int = 8443
    certificate: str | None = None
    key: str | None = None
    namespaces: tuple[str, ...] | None = None
    audiences: tuple[str, ...] = ()
    lease: LeaseOptions = dataclasses.field(default_factory=LeaseOptions)
    bounds: Bounds = dataclasses.field(default_factory=Bounds)


def read_options(arguments: Sequence[str], environ: Mapping[str, str]) -> ServiceOptions:
    """The options of a command line and an environment; argparse tells what is wrong and ends the program."""
    parser = _parser(environ)
    given = parser.parse_args(list(arguments))
    if bool(given.certificate) != bool(given.key):
        parser.error("--certificate and --key belong together")
    if not given.certificate and not given.plain:
        parser.error("give --certificate and --key, or --plain to speak HTTP without TLS to a proxy beside it")
    bounds = Bounds(
        connections=given.connections,
        requests=given.requests,
        threads=given.threads,
        header_seconds=given.header_seconds,
        body_seconds=given.body_seconds,
        work_seconds=given.work_seconds,
    )
    for field in dataclasses.fields(bounds):
        if getattr(bounds, field.name) <= 0:
            raise BadInput("use", f"--{field.name.replace('_', '-')}", "more than 0 is needed")
    return ServiceOptions(
        host=given.host,
        port=given.port,
        certificate=given.certificate or None,
        key=given.key or None,
        namespaces=tuple(given.namespace) or None,
        audiences=tuple(given.audience),
        lease=LeaseOptions(given.lease_namespace, given.lease_name),
        bounds=bounds,
    )


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """The arguments; what the environment says is the default of each."""
    usual, bounds = ServiceOptions(), Bounds()
    parser = argparse.ArgumentParser(description="Serve elastic jobs of muster.kube over HTTP.")

    def add(name: str, default: object, words: str) -> None:
        """One argument and its variable."""
        variable = PREFIX + name.upper().replace("-", "_")
        kind = type(default) if isinstance(default, int | float) else str
        text = environ.get(variable)
        told = default if text is None else text
        parser.add_argument(f"--{name}", type=kind, default=told, help=f"{words} ({variable}; {default})")

    def add_list(name: str, words: str) -> None:
        """An argument that may be given several times, its variable with commas between."""
        variable = f"{PREFIX}{name.upper()}S"
        listed = [item.strip() for item in environ.get(variable, "").split(",") if item.strip()]
        parser.add_argument(f"--{name}", action="append", default=listed, help=f"{words} ({variable})")

    add("host", usual.host, "address to listen at")
    add("port", usual.port, "port to listen at, 0 for any that is free")
    add("certificate", "", "file with the certificate and its chain")
    add("key", "", "file with the key")
    plain = environ.get(f"{PREFIX}PLAIN", "") not in ("", "0", "false")
    parser.add_argument("--plain", action="store_true", default=plain, help=f"speak HTTP without TLS ({PREFIX}PLAIN)")
    add_list("namespace", "a namespace whose jobs are served; all where none is given")
    add_list("audience", "an audience that tokens have to be for; that of the API server where none is given")
    add("lease-namespace", usual.lease.namespace, "namespace of the Lease of dispatchers")
    add("lease-name", usual.lease.name, "name of that Lease")
    add("connections", bounds.connections, "connections at a time")
    add("requests", bounds.requests, "requests that are worked on or wait for it at a time")
    add("threads", bounds.threads, "threads that work on them")
    add("header-seconds", bounds.header_seconds, "how long the head of a request may take")
    add("body-seconds", bounds.body_seconds, "how long the body of a request may take")
    add("work-seconds", bounds.work_seconds, "how long a request may take in all")
    return parser
