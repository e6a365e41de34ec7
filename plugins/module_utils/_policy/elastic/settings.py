# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings by which all dispatchers of a Lease decide about sizes, and the text that they are stored as."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, parse_json
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import PolicyName

SETTINGS_FORMAT = 1
POLICY_NAMES: tuple[PolicyName, ...] = t.get_args(PolicyName)
SETTING_KEYS = ("policy", "worth", "near_end", "most_resizes", "patience")
# The number of resizes at a time that means any number.
UNLIMITED = -1


@dataclasses.dataclass(frozen=True, slots=True)
class SizeSettings:
    """Who gets GPUs that are free, and when a resize is worth its cost; unknown holds keys of a later version."""

    policy: PolicyName = "afs"
    terms: SizeTerms = dataclasses.field(default_factory=SizeTerms)
    unknown: Data = dataclasses.field(default_factory=dict)

    def as_data(self) -> Data:
        """Plain values from which read_settings makes the same again."""
        terms = dataclasses.asdict(self.terms)
        most = UNLIMITED if terms["most_resizes"] is None else terms["most_resizes"]
        return {"policy": self.policy, **terms, "most_resizes": most}


@dataclasses.dataclass(frozen=True, slots=True)
class SizeRules:
    """The settings of a cycle, and why nothing is resized, if so.

    version is that of the object that holds them, empty where there is none; None while nobody asked for them.
    """

    settings: SizeSettings = dataclasses.field(default_factory=SizeSettings)
    version: str | None = None
    problem: str | None = None


DEFAULT_RULES = SizeRules()


def not_resized(problem: str) -> str:
    """What is said where the settings cannot be read: nobody knows what they forbid."""
    return f"no gang is resized: {problem}"


def read_settings(data: t.Any, where: str, *, stored: bool = False) -> SizeSettings:
    """The settings of plain values, by default those of a cluster without any; BadInput tells what is wrong.

    Of stored ones keys of a later version are kept; one that only a later version reads is a NewerVersion.
    """
    fields = Fields(data, where)
    known = ("format", *SETTING_KEYS)
    if stored:
        fields.require_format(SETTINGS_FORMAT)
    else:
        fields.only(known)
    usual = SizeTerms()
    near_end = usual.near_end if fields.get("near_end") is None else fields.number("near_end")
    if near_end > 1:
        raise fields.fail("near_end", f"a part of the work from 0 to 1 is needed, not {near_end:g}")
    terms = SizeTerms(
        worth=usual.worth if fields.get("worth") is None else fields.number("worth"),
        near_end=near_end,
        most_resizes=_most(fields, usual.most_resizes),
        patience=fields.duration("patience", usual.patience),
    )
    return SizeSettings(fields.choice("policy", POLICY_NAMES, "afs"), terms, fields.unknown(known) if stored else {})


def _most(fields: Fields, usual: int | None) -> int | None:
    """How many gangs are resized at a time; None for any number."""
    if fields.get("most_resizes") is None:
        return usual
    most = fields.whole("most_resizes", UNLIMITED, INT32 - 1)
    return None if most == UNLIMITED else most


def settings_text(settings: SizeSettings) -> str:
    """The text that is stored."""
    data = {"format": SETTINGS_FORMAT, **settings.unknown, **settings.as_data()}
    return json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False)


def settings_from_text(text: t.Any, where: str) -> SizeSettings:
    """The settings that a stored text holds."""
    return read_settings(parse_json(text, where), where, stored=True)
