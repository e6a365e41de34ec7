# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Releases of helm as helm itself keeps them: one Secret for each revision, with everything that was installed."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import typing as t
import zlib
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, describe_object, value_at

SECRET_TYPE = "helm.sh/release.v1"
OWNER_LABEL = "owner"
OWNER = "helm"
NAME_LABEL = "name"
REVISION_LABEL = "version"
STATUS_LABEL = "status"

DEPLOYED, SUPERSEDED, FAILED = "deployed", "superseded", "failed"
UNINSTALLING, UNINSTALLED = "uninstalling", "uninstalled"
PENDING_ROLLBACK = "pending-rollback"
PENDING = ("pending-install", "pending-upgrade", PENDING_ROLLBACK)
# What a revision has that was once all there.
COMPLETED = (DEPLOYED, SUPERSEDED)

# What we have helm write onto a revision: whose it is, what was rendered, and which revision that was for.
COMPONENT_MARK = "muster.kube/component-release"
RENDER_MARK = "muster.kube/render"
REVISION_MARK = "muster.kube/revision"

_GZIP = b"\x1f\x8b\x08"
# zlib's word for a text with the head of gzip.
_WITH_HEAD = 31
# A Secret holds a megabyte; nothing honest grows to this, and everybody may write a Secret that does.
_MOST_BYTES = 32 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class HelmMark:
    """What we wrote onto a revision. helm carries it on to later ones, so it counts for its own revision only."""

    component: str
    render: str
    revision: int | None

    def as_labels(self) -> dict[str, str]:
        """The labels that helm is told to write."""
        return {
            COMPONENT_MARK: self.component,
            RENDER_MARK: self.render,
            REVISION_MARK: "" if self.revision is None else str(self.revision),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class HelmRevision:
    """One revision of a release, by the labels of its Secret."""

    name: str
    namespace: str
    revision: int
    status: str
    mark: HelmMark | None = None
    # The Secret that it is kept in.
    secret: str = ""
    uid: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether a helm is at it, or was when it ended."""
        return self.status in PENDING

    @property
    def is_as_we_made_it(self) -> bool:
        """Whether it is the very revision that our mark was written for."""
        return self.mark is not None and self.mark.revision == self.revision


@dataclasses.dataclass(frozen=True, slots=True)
class HelmRelease:
    """All that helm keeps of a revision, as far as we ask."""

    revision: HelmRevision
    chart: str
    chart_version: str
    app_version: str
    # What the user gave; the chart's own values are not among it.
    values: Mapping[str, t.Any]
    # The objects as text, without those of crds/ and without hooks.
    manifest: str
    hooks: tuple[str, ...] = ()
    description: str = ""
    # Whether it was made by an install, which charts can tell from an upgrade.
    from_install: bool = True


def read_revision(secret: Object) -> HelmRevision | None:
    """What the labels of a Secret tell; None when it holds no revision of helm."""
    metadata = secret["metadata"]
    labels = metadata.get("labels") or {}
    number = _whole(labels.get(REVISION_LABEL))
    if labels.get(OWNER_LABEL) != OWNER or not labels.get(NAME_LABEL) or number is None:
        return None
    return HelmRevision(
        name=labels[NAME_LABEL],
        namespace=metadata.get("namespace") or "",
        revision=number,
        status=labels.get(STATUS_LABEL) or "unknown",
        mark=_read_mark(labels),
        secret=metadata["name"],
        uid=metadata.get("uid") or "",
    )


def _read_mark(labels: Mapping[str, str]) -> HelmMark | None:
    """Our mark, if there is one."""
    component = labels.get(COMPONENT_MARK)
    if not component:
        return None
    return HelmMark(component, labels.get(RENDER_MARK) or "", _whole(labels.get(REVISION_MARK)))


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and text.isascii() else None


def read_release(secret: Object) -> HelmRelease:
    """The revision that a Secret holds; what is no such Secret, or damaged, is refused with its name."""
    where = describe_object({"kind": "Secret", **secret})
    revision = read_revision(secret)
    if revision is None:
        raise BadInput("read", where, "it is no release of helm")
    if secret.get("type") != SECRET_TYPE:
        raise NewerVersion("read", where, f"its type is {secret.get('type')} and not {SECRET_TYPE}")
    try:
        body = json.loads(_unpacked(secret))
    except RecursionError as error:
        raise BadInput("read", where, "the release in it is damaged: it is nested too deeply") from error
    except (ValueError, binascii.Error, zlib.error) as error:
        raise BadInput("read", where, f"the release in it is damaged: {error}") from error
    if not isinstance(body, dict):
        raise BadInput("read", where, "the release in it is damaged: it is no mapping")
    info, chart, values = (value_at(body, path) or {} for path in (("info",), ("chart", "metadata"), ("config",)))
    hooks = body.get("hooks") or []
    if not (
        isinstance(info, dict) and isinstance(chart, dict) and isinstance(values, dict) and isinstance(hooks, list)
    ):
        raise BadInput("read", where, "the release in it is damaged: info, chart, config or hooks are of no known form")
    return HelmRelease(
        revision=dataclasses.replace(revision, status=str(info.get("status") or revision.status)),
        chart=str(chart.get("name") or ""),
        chart_version=str(chart.get("version") or ""),
        app_version=str(chart.get("appVersion") or ""),
        values=values,
        manifest=str(body.get("manifest") or ""),
        hooks=tuple(str(hook.get("manifest") or "") for hook in hooks if isinstance(hook, dict)),
        description=str(info.get("description") or ""),
        from_install=info.get("first_deployed") == info.get("last_deployed"),
    )


def _unpacked(secret: Object) -> bytes:
    """The text of a release: coded once by helm, and once more by Kubernetes as all data of Secrets are."""
    coded = value_at(secret, ("data", "release"))
    if not isinstance(coded, str):
        raise ValueError("there is none")
    packed = base64.b64decode(base64.b64decode(coded, validate=True), validate=True)
    if not packed.startswith(_GZIP):
        return packed
    unpacker = zlib.decompressobj(_WITH_HEAD)
    text = unpacker.decompress(packed, _MOST_BYTES)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("it is cut off" if not unpacker.unconsumed_tail else f"it is larger than {_MOST_BYTES} bytes")
    return text
