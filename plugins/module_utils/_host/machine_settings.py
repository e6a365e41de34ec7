# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a kubelet changes on the machine itself: remembered before the first one starts, undone after the last."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._host.files import write_file

RECORD = pathlib.Path("/run/muster-local-cluster.json")
KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# Places that no option of kubelet and containerd can move, inner ones first.
DIRECTORIES = (
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/lib/cni/results",
    "/var/lib/cni",
    "/run/containerd/s",
    "/run/containerd",
)
DEVICE_PLUGIN_FILES = ("kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION")


@dataclasses.dataclass(slots=True)
class SavedSettings:
    """How the machine was before its first real node, and which clusters have one; each named by its directory."""

    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    missing: list[str] = dataclasses.field(default_factory=list)
    clusters: list[str] = dataclasses.field(default_factory=list)


class MachineSettings:
    """The settings of this machine, or in tests of a directory in its place."""

    def __init__(self, root: pathlib.Path = pathlib.Path("/")) -> None:
        """Everything is looked up below the root."""
        self.root = root

    def save(self, cluster: pathlib.Path) -> None:
        """Remember the machine as it is before the node of this cluster starts."""
        with self._locked():
            record = self._read()
            if record is None:
                missing = [name for name in DIRECTORIES if not self._path(name).is_dir()]
                record = SavedSettings(self._settings(), missing)
            if str(cluster) not in record.clusters:
                record.clusters.append(str(cluster))
                write_file(self._path(str(RECORD)), json.dumps(dataclasses.asdict(record)))

    def restore(self, cluster: pathlib.Path) -> None:
        """Undo what the nodes changed, unless another cluster still has one."""
        with self._locked():
            record = self._read()
            if record is None:
                return
            # A directory that is gone was deleted by hand, so its cluster will never be removed.
            record.clusters = [name for name in record.clusters if name != str(cluster) and pathlib.Path(name).is_dir()]
            if record.clusters:
                write_file(self._path(str(RECORD)), json.dumps(dataclasses.asdict(record)))
                return
            self._write_back(record)
            self._path(str(RECORD)).unlink(missing_ok=True)

    def _write_back(self, record: SavedSettings) -> None:
        """Write changed settings back and remove directories that were not there and hold nothing any more."""
        now = self._settings()
        for name, value in record.settings.items():
            if now.get(name) != value:
                self._path(f"/proc/sys/{name}").write_text(value, encoding="utf-8")
        if DIRECTORIES[0] in record.missing:
            for name in DEVICE_PLUGIN_FILES:
                (self._path(DIRECTORIES[0]) / name).unlink(missing_ok=True)
        for name in DIRECTORIES:
            if name in record.missing:
                with contextlib.suppress(OSError):
                    self._path(name).rmdir()

    def _settings(self) -> dict[str, str]:
        """The kernel settings that a kubelet changes; a kernel may lack some."""
        found = {}
        for name in KERNEL_SETTINGS:
            with contextlib.suppress(OSError):
                found[name] = self._path(f"/proc/sys/{name}").read_text(encoding="utf-8").strip()
        return found

    def _path(self, name: str) -> pathlib.Path:
        """A path below the root."""
        return self.root / name.lstrip("/")

    def _read(self) -> SavedSettings | None:
        """The record; None when no real node is known."""
        try:
            data: dict[str, t.Any] = json.loads(self._path(str(RECORD)).read_text(encoding="utf-8"))
            return SavedSettings(**data)
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _locked(self) -> collections.abc.Iterator[None]:
        """One at a time. The directory itself is locked, so that no lock file is left behind."""
        descriptor = os.open(self._path(str(RECORD)).parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
