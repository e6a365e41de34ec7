# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading logs: the end of them, within bounds."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import TAIL_LINES, read_log

LOG = "/api/v1/namespaces/lab/pods/p/log"


@pytest.mark.parametrize(("bound", "expected"), [(3, b"xyz"), (None, b"uvwxyz"), (100, b"uvwxyz"), (0, b"")])
def test_the_end_is_kept(stub, client, reply, bound, expected):
    stub.answer("GET", LOG, reply(chunks=[b"uvwxyz"]))
    assert read_log(client, "lab", "p", "main", tail_bytes=bound) == expected


def test_the_server_is_asked_for_one_container_and_the_last_lines(stub, client, reply):
    stub.answer("GET", LOG, reply(chunks=[b"x"]))
    read_log(client, "lab", "p", "main")
    assert stub.seen[0].query == {"container": "main", "tailLines": str(TAIL_LINES)}
    read_log(client, "lab", "p", "main", tail_lines=None)
    assert stub.seen[1].query == {"container": "main"}


def test_a_pod_that_is_gone_is_not_found(stub, client, reply):
    stub.answer("GET", LOG, reply({"kind": "Status", "code": 404}, status=404))
    with pytest.raises(NotFound):
        read_log(client, "lab", "p", "main")
