# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the service's program, from arguments and from the environment."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.service.options import (
    Bounds,
    ServiceOptions,
    read_options,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

TLS = ["--certificate", "c", "--key", "k"]


def test_what_is_not_given() -> None:
    assert read_options(TLS, {}) == ServiceOptions(certificate="c", key="k")
    assert read_options(["--plain"], {}) == ServiceOptions()


def test_arguments_come_before_the_environment() -> None:
    environ = {
        "MUSTER_HTTP_PORT": "7",
        "MUSTER_HTTP_PLAIN": "1",
        "MUSTER_HTTP_NAMESPACES": "a, b",
        "MUSTER_HTTP_AUDIENCES": "x",
        "MUSTER_HTTP_LEASE_NAME": "l",
        "MUSTER_HTTP_BODY_SECONDS": "1.5",
        "MUSTER_HTTP_THREADS": "3",
    }
    found = read_options([], environ)
    assert (found.port, found.namespaces, found.audiences) == (7, ("a", "b"), ("x",))
    assert found.lease == LeaseOptions("muster-system", "l")
    assert found.bounds == Bounds(body_seconds=1.5, threads=3)
    assert read_options(["--port", "8", "--namespace", "c"], environ).namespaces == ("a", "b", "c")
    assert read_options(["--port", "8"], environ).port == 8


@pytest.mark.parametrize(
    "arguments", [[], ["--certificate", "c"], ["--key", "k"], [*TLS, "--port", "x"], [*TLS, "--none"]]
)
def test_what_makes_no_sense_ends_the_program(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_options(arguments, {})
    assert "usage:" in capsys.readouterr().err


def test_bounds_are_more_than_nothing() -> None:
    with pytest.raises(BadInput, match="--threads"):
        read_options([*TLS, "--threads", "0"], {})
