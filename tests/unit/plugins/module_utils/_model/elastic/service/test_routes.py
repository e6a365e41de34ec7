# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Routes, their document, and who carries them out: all three are the same."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.desk import WORKS
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.openapi import openapi
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import (
    REFUSALS,
    ROUTES,
    Matched,
    NotServed,
    match_route,
    place_names,
)

# Of the GenAI workload manager's metadata manager and monitor.
ORIGINAL = {
    ("POST", "/add_job"),
    ("PUT", "/update_last_checkpoint"),
    ("PUT", "/update_job_status"),
    ("PUT", "/update_job"),
    ("PUT", "/increment_restarts"),
    ("DELETE", "/delete_job"),
    ("GET", "/get_job/x"),
    ("GET", "/get_all_jobs"),
    ("GET", "/get_jobs_by_arrival"),
    ("GET", "/get_jobs_by_checkpoint_limit"),
    ("GET", "/get_jobs_by_difference/2"),
    ("GET", "/get_scale_down_jobs_by_checkpoint/2"),
    ("GET", "/freegpu"),
    ("GET", "/resourcequota/x"),
    ("POST", "/scale/x"),
}


@pytest.mark.parametrize(("method", "path"), sorted(ORIGINAL))
def test_everything_of_the_original_is_served(method: str, path: str) -> None:
    assert isinstance(match_route(method, path), Matched)


def test_every_route_is_carried_out_and_nothing_else() -> None:
    assert {route.work for route in ROUTES} == WORKS
    assert len(WORKS) == len(ROUTES)


def test_the_document_holds_every_route_and_nothing_else() -> None:
    document = openapi()
    assert json.loads(json.dumps(document)) == document
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(route.method, route.path) for route in ROUTES}
    for route in ROUTES:
        operation: dict[str, t.Any] = document["paths"][route.path][route.method.lower()]
        assert operation["operationId"] == route.work
        assert ("security" in operation) == (not route.open)
        assert {str(code) for code in route.answers} <= set(operation["responses"])
        assert {int(code) for code in operation["responses"]} - set(route.answers) <= set(REFUSALS)
        listed = [item["name"] for item in operation.get("parameters", ()) if item["in"] == "path"]
        assert listed == place_names(route.path) == re.findall(r"\{(\w+)\}", route.path)
        if route.body is not None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert set(schema["properties"]) == set(route.body)
            assert set(schema.get("required", ())) == {key for key, item in route.body.items() if item.required}


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document = openapi()
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)))
    assert references
    for reference in references:
        found: t.Any = document
        for part in reference.split("/"):
            found = found[part]


@pytest.mark.parametrize(
    ("path", "places"),
    [("/get_job/a", {"name": "a"}), ("/get_job/a%2Fb", {"name": "a/b"}), ("/scale/a/1f", {"name": "a", "id": "1f"})],
)
def test_places_of_a_path(path: str, places: dict[str, str]) -> None:
    found = match_route("GET", path)
    assert isinstance(found, Matched)
    assert dict(found.places) == places


def test_other_methods_are_named() -> None:
    assert match_route("PUT", "/jobs") == NotServed(("POST", "DELETE"))
    assert match_route("PUT", "/jobs/") == NotServed(())
    assert match_route("GET", "//healthz") == NotServed(())
