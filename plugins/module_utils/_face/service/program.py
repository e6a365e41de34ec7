# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the HTTP service: it needs Python, kubernetes, PyYAML, aiohttp and this collection, and no Ansible."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._face.service.options import read_options
from ansible_collections.muster.kube.plugins.module_utils._face.service.server import run_service
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.desk import Desk
from ansible_collections.muster.kube.plugins.module_utils._kube.client import RetryPolicy, connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

# A caller waits: it had better ask again than wait for long.
_RETRY = RetryPolicy(tries=4, total_seconds=8.0)


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run the service; how to reach the cluster is taken from the usual variables, or is that of a pod."""
    variables = os.environ if environ is None else environ
    try:
        check_libraries()
        options = read_options(sys.argv[1:] if arguments is None else arguments, variables)
        client = connect({}, environ=variables, retry=_RETRY)
        desk = Desk(client, namespaces=options.namespaces, audiences=options.audiences, lease=options.lease)
        run_service(desk, options, _say)
    except MusterError as error:
        _say(str(error))
        return 1
    return 0


def _say(words: str) -> None:
    """One line of the log."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{stamp} {words}\n")
    sys.stderr.flush()
