# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of components: what depends on others comes after them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.nearest import nearest_hint

Needs = Mapping[str, Collection[str]]


def in_waves(needs: Needs, there: Collection[str] = ()) -> tuple[tuple[str, ...], ...]:
    """The names in waves: each depends on earlier ones only, or on components that are there already.

    A name that is neither is refused with the nearest one, a cycle with its path.
    """
    for name, wanted in needs.items():
        for other in wanted:
            if other not in needs and other not in there:
                cause = f"there is no component {other}; {nearest_hint(other, {*needs, *there} - {name})}"
                raise BadInput("order", f"component {name}: depends_on", cause)
    waves: list[tuple[str, ...]] = []
    done: set[str] = set()
    while len(done) < len(needs):
        wave = tuple(
            name
            for name, wanted in needs.items()
            if name not in done and all(other in done or other not in needs for other in wanted)
        )
        if not wave:
            path = _cycle({name: needs[name] for name in needs if name not in done})
            raise BadInput("order", f"component {path[0]}: depends_on", f"it is a cycle: {' → '.join(path)}")
        waves.append(wave)
        done.update(wave)
    return tuple(waves)


def _cycle(needs: Needs) -> tuple[str, ...]:
    """One cycle among names each of which depends on another one of them: followed until a name comes again."""
    path = [next(iter(needs))]
    while True:
        name = next(other for other in needs[path[-1]] if other in needs)
        if name in path:
            return (*path[path.index(name) :], name)
        path.append(name)
