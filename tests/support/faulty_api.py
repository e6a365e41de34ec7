# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The small writable API server with trouble on demand: refusals, lost answers, others who act in between."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass
from urllib.parse import urlsplit

from ansible_collections.muster.kube.tests.support.writable_api import Answer, Object, WritableApi


@dataclass
class Trouble:
    """What happens at some of the requests that match."""

    method: str
    path: re.Pattern[str]
    times: int
    answer: Answer | None = None
    happens: t.Callable[[], None] | None = None
    lost: bool = False


class FaultyApi(WritableApi):
    """Nothing is collected by itself: what is left behind can be seen."""

    def __init__(self) -> None:
        """No trouble yet."""
        super().__init__()
        self.collects = False
        self.troubles: list[Trouble] = []
        self.webhooks: list[tuple[re.Pattern[str], t.Callable[[Object], object]]] = []

    def admit(self, path: str, change: t.Callable[[Object], object]) -> None:
        """Have an admission webhook change what is created, pretended or not."""
        self.webhooks.append((re.compile(path), change))

    def fail(self, method: str, path: str, status: int, message: str = "", times: int = 1, **told: t.Any) -> None:
        """Refuse with a Status; told may hold reason and details, and what happens meanwhile."""
        happens = told.pop("happens", None)
        body = {"kind": "Status", "code": status, "message": message or "made by the test", **told}
        self.troubles.append(Trouble(method, re.compile(path), times, answer=(status, body), happens=happens))

    def lose(self, method: str, path: str, times: int = 1) -> None:
        """Carry requests out and lose the answers."""
        self.troubles.append(Trouble(method, re.compile(path), times, lost=True))

    def before(self, method: str, path: str, happens: t.Callable[[], None]) -> None:
        """Have something happen just before a request arrives."""
        self.troubles.append(Trouble(method, re.compile(path), 1, happens=happens))

    def answer(self, method: str, url: str, body: Object | None) -> Answer:
        """As the server would answer, but for the trouble."""
        from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault

        path = urlsplit(url).path
        if method == "POST" and body is not None:
            for pattern, change in self.webhooks:
                if pattern.search(path):
                    change(body)
        found = next((x for x in self.troubles if x.times and x.method == method and x.path.search(path)), None)
        if found is None:
            return super().answer(method, url, body)
        found.times -= 1
        if found.happens is not None:
            found.happens()
        if found.answer is not None:
            self.asked.append((method, path, "dryRun=All" in url))
            return found.answer
        answer = super().answer(method, url, body)
        if found.lost:
            raise TransportFault("cut by the test", True)
        return answer
