# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of sizes that a task asks for: what is stored with what is given put over it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.object_changes import differing_parts
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import (
    SizeSettings,
    read_settings,
)
from ansible_collections.muster.kube.plugins.module_utils._store.size_settings import (
    StoredSettings,
    read_stored_settings,
    settings_name,
    write_settings,
)

Data = dict[str, t.Any]


@dataclasses.dataclass(frozen=True, slots=True)
class WantedSettings:
    """What is stored, what is to be stored, and whether these differ; version is that of what is stored."""

    where: str
    stored: StoredSettings | None
    wanted: SizeSettings
    changed: bool = False
    version: str = ""
    warnings: tuple[str, ...] = ()

    def difference(self) -> Data:
        """What differs."""
        known = self.stored.settings if self.stored is not None else None
        parts = ({} if known is None else known.as_data(), self.wanted.as_data()) if self.changed else ({}, {})
        before, after = differing_parts(*parts)
        return {"before_header": self.where, "after_header": self.where, "before": before, "after": after}


def want_settings(client: KubeClient, options: BalanceOptions) -> WantedSettings:
    """Find out what is to be stored; what is not ours to write, and what makes no sense, is refused."""
    where = f"ConfigMap {options.lease.namespace}/{settings_name(options.lease)}"
    given = read_settings(options.settings, "the settings of sizes").as_data()
    try:
        stored = read_stored_settings(client, options.lease)
    except Forbidden:
        # Dispatchers that may not read them either resize nothing and say so.
        if options.settings:
            raise
        return WantedSettings(where, None, SizeSettings())
    if not options.settings:
        known = stored.settings if stored is not None and not stored.foreign else None
        return WantedSettings(where, stored, known or SizeSettings(), version=_version(stored))
    if stored is not None and stored.newer:
        raise NewerVersion("change", where, str(stored.unreadable))
    if stored is not None and stored.foreign:
        raise BadInput("change", where, "it is not marked as settings of sizes, so somebody else made it; remove it")
    before = stored.settings if stored is not None else None
    known = before or SizeSettings()
    wanted = read_settings({**known.as_data(), **{key: given[key] for key in options.settings}}, where)
    wanted = dataclasses.replace(wanted, unknown=known.unknown)
    broken = stored.unreadable if stored is not None else None
    warnings = () if broken is None else (f"the stored settings could not be read and are replaced: {broken}",)
    # Settings that nobody stored are the usual ones.
    changed = broken is not None or wanted != known
    return WantedSettings(where, stored, wanted, changed, _version(stored), warnings)


def keep_settings(client: KubeClient, options: BalanceOptions, found: WantedSettings) -> WantedSettings:
    """Store what is to be stored, if it differs."""
    if not found.changed:
        return found
    stored = write_settings(client, options.lease, found.stored, found.wanted)
    return dataclasses.replace(found, version=_version(stored))


def _version(stored: StoredSettings | None) -> str:
    """The version that dispatchers see."""
    return "" if stored is None or stored.foreign else str(stored.raw["metadata"]["resourceVersion"])
