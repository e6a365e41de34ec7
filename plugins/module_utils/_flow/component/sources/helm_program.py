# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program helm: what it is asked to do, and what it says when it cannot."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._host.outside_programs import (
    Argument,
    FinishedProgram,
    Hold,
    InputFile,
    OutsideProgram,
    ProgramNeed,
    ProgramTrouble,
    find_program,
    run_program,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.capabilities import ServerCapabilities
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import HelmMark
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import OCI, HelmSource, hide
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

# Since 3.13 it renders with a look at the cluster and writes labels of ours; what 4 does has not been seen.
HELM = ProgramNeed("helm", ("version", "--template", "{{.Version}}"), (3, 13), (4,))
# What helm may know of our environment: where programs and its own files are, and how to reach others. Which cluster,
# namespace and storage it works with is not left to that.
_PASSED_ON = (
    "HOME",
    "PATH",
    "TMPDIR",
    "LANG",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DOCKER_CONFIG",
    "HELM_CACHE_HOME",
    "HELM_CONFIG_HOME",
    "HELM_DATA_HOME",
    "HELM_PLUGINS",
    "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CACHE",
    "HELM_REPOSITORY_CONFIG",
)
_STORAGE = {"HELM_DRIVER": "secret"}
_RENDER_SECONDS = 120.0
_PULL_SECONDS = 300.0
# helm ends itself when its own time is over; only if it does not, it is ended.
_SPARE_SECONDS = 15.0
_ERROR = "Error: "
# What nobody may do who does not hold the right to.
_WRITING = ("install", "remove")


@dataclasses.dataclass(frozen=True, slots=True)
class HelmProgram:
    """helm on this machine, with the connection that it works over."""

    program: OutsideProgram
    environment: collections.abc.Mapping[str, str]
    # Asked each time, since tokens in it expire.
    kubeconfig: collections.abc.Callable[[], collections.abc.Mapping[str, t.Any]]
    # Raises when the right to write is lost; helm is ended then.
    hold: Hold | None = None

    def held_by(self, hold: Hold) -> HelmProgram:
        """The same, ended as soon as this raises while it writes."""
        return dataclasses.replace(self, hold=hold)

    def render(self, chart: str, source: HelmSource, server: ServerCapabilities, *, upgrade: bool) -> str:
        """The text of all objects; what a chart looks up in the cluster is what it finds there."""
        done = self._run(
            "render",
            source,
            [
                *("template", source.release, chart, *self._place(source), *_values(source)),
                *("--include-crds", "--skip-tests", "--dry-run=server", "--kube-version", server.version),
                *("--api-versions", ",".join(sorted(server.api_versions))),
                *(["--is-upgrade"] if upgrade else []),
            ],
            _RENDER_SECONDS,
        )
        return done.output.decode()

    def pull(self, source: HelmSource, directory: str) -> str:
        """Fetch the archive of a chart into an empty directory; returns what helm told about it."""
        arguments: list[Argument] = ["pull", source.chart, "--destination", directory]
        arguments += ["--repo", source.repository] if source.repository else []
        arguments += ["--version", source.version] if source.version else []
        done = self._run("fetch", source, arguments, _PULL_SECONDS)
        return f"{done.output.decode(errors='replace')}\n{done.errors}"

    def upgrade(self, chart: str, source: HelmSource, mark: HelmMark, timeout: float) -> None:
        """Install or upgrade the release with all its hooks; nothing but hooks is waited for."""
        labels = ",".join(f"{key}={value}" for key, value in mark.as_labels().items())
        self._run(
            "install",
            source,
            [
                *("upgrade", source.release, chart, "--install", *self._place(source), *_values(source)),
                # Without it no values at all would mean those of the last revision.
                *("--reset-values", "--skip-crds", "--wait=false", "--disable-openapi-validation"),
                *("--labels", labels, "--timeout", _seconds(timeout)),
            ],
            timeout + _SPARE_SECONDS,
        )

    def uninstall(self, source: HelmSource, timeout: float) -> None:
        """Remove the release with all its hooks and revisions."""
        place = self._place(source)
        arguments = ["uninstall", source.release, *place, "--ignore-not-found", "--timeout", _seconds(timeout)]
        self._run("remove", source, arguments, timeout + _SPARE_SECONDS)

    def _place(self, source: HelmSource) -> tuple[Argument, ...]:
        """Which cluster and namespace."""
        kubeconfig = InputFile("kubeconfig", json.dumps(self.kubeconfig()))
        return "--namespace", source.namespace, "--kubeconfig", kubeconfig

    def _run(
        self, action: str, source: HelmSource, arguments: collections.abc.Sequence[Argument], timeout: float
    ) -> FinishedProgram:
        """Run helm; its failure becomes ours, in its words and without secret values."""
        target = f"chart {source.chart}" if action in ("fetch", "render") else f"release {source.full_name}"
        environment = {**self.environment, **_STORAGE}
        hold = self.hold if action in _WRITING else None
        try:
            done = run_program(self.program, arguments, environment=environment, timeout=timeout, hold=hold)
        except ProgramTrouble as error:
            raise MusterError(action, target, hide(f"{error.target}: {error.cause}", source.secrets())) from None
        if done.code:
            raise MusterError(action, target, hide(_why(done), source.secrets()))
        return done


def open_helm(
    environ: collections.abc.Mapping[str, str],
    kubeconfig: collections.abc.Callable[[], collections.abc.Mapping[str, t.Any]],
    path: str | None = None,
) -> HelmProgram:
    """Helm as it is found on this machine, or at this path; one that is missing or too old is refused."""
    environment = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    return HelmProgram(find_program(HELM, environment, path), environment, kubeconfig)


def is_reference(source: HelmSource) -> bool:
    """Whether a chart has to be fetched by helm."""
    return source.repository is not None or source.chart.startswith(OCI)


def _values(source: HelmSource) -> list[Argument]:
    """The values, and over them the secret ones, by files."""
    arguments: list[Argument] = []
    for name, values in (("values.json", source.values), ("secret-values.json", source.secret_values)):
        if values:
            arguments += ["--values", InputFile(name, json.dumps(values))]
    return arguments


def _seconds(timeout: float) -> str:
    return f"{max(1, round(timeout))}s"


def _why(done: FinishedProgram) -> str:
    """What helm says; it begins with its error, before which warnings of the server may be."""
    _before, found, told = done.errors.partition(_ERROR)
    return " ".join(told.split()) if found and told.strip() else done.last_words
