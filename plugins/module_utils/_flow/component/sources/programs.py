# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of this machine that sources need, looked for when the first of them is needed."""

from __future__ import annotations

import collections.abc
import dataclasses
import os
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import (
    HelmProgram,
    open_helm,
)
from ansible_collections.muster.kube.plugins.module_utils._host.outside_programs import (
    FinishedProgram,
    ProgramNeed,
    find_program,
    run_program,
)

# Since 1.21 it has the kustomize that knows components, patches and the fields of today.
KUBECTL = ProgramNeed("kubectl", ("version", "--client"), (1, 21))
# What kubectl may know of our environment: where programs, their files and others are, no cluster and no credential.
_PASSED_ON = (
    *("HOME", "PATH", "TMPDIR", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_KUSTOMIZE_SECONDS = 300.0


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramPaths:
    """Where programs are that PATH does not lead to."""

    helm: str | None = None
    kubectl: str | None = None


AS_FOUND = ProgramPaths()


class SourcePrograms(t.Protocol):
    """What sources need besides files."""

    def helm(self) -> HelmProgram:
        """The program helm, with a connection to the cluster."""

    def kustomize(self, src: str) -> FinishedProgram:
        """What kubectl makes of a kustomization."""


@dataclasses.dataclass(frozen=True, slots=True)
class InstalledPrograms:
    """Those that PATH leads to, or that are at these paths."""

    kubeconfig: collections.abc.Callable[[], collections.abc.Mapping[str, t.Any]]
    paths: ProgramPaths = AS_FOUND

    def helm(self) -> HelmProgram:
        """Helm; one that is missing or too old is refused."""
        return open_helm(os.environ, self.kubeconfig, self.paths.helm)

    def kustomize(self, src: str) -> FinishedProgram:
        """What kubectl makes of a kustomization; it fetches one that is at an address by git."""
        environment = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
        program = find_program(KUBECTL, environment, self.paths.kubectl)
        return run_program(program, ["kustomize", src], environment=environment, timeout=_KUSTOMIZE_SECONDS)
