# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The OpenAPI document of the HTTP service, made of its routes."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import (
    REFUSALS,
    ROUTES,
    BodyField,
    Route,
    place_names,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

_TITLE = "Elastic jobs of muster.kube"
_ABOUT = (
    "Trainings report here, and jobs are queued, read, resized and removed. All but a few paths want the bearer token "
    "of an account of the cluster."
)
# Anybody can get these.
_OF_ALL = (503,)
_OF_BODIES = (400, 413, 415)


def openapi() -> Data:
    """The whole document."""
    paths: dict[str, Data] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": _TITLE, "description": _ABOUT, "version": "1"},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Refusal": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
            },
        },
    }


def _operation(route: Route) -> Data:
    """One method of a path."""
    told: Data = {"operationId": route.work, "summary": route.summary, "responses": _responses(route)}
    parameters = [_parameter("path", name, name) for name in place_names(route.path)]
    parameters += [_parameter("query", name, meaning) for name, meaning in route.query.items()]
    if parameters:
        told["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": _schema(route.body)}}
        told["requestBody"] = {"required": any(item.required for item in route.body.values()), "content": content}
    return told if route.open else {**told, "security": [{"token": []}]}


def _parameter(place: str, name: str, meaning: str) -> Data:
    """A place of the path, or what may stand behind the question mark."""
    shape = {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
    return {**shape, "description": meaning} if place == "query" else shape


def _schema(body: Mapping[str, BodyField]) -> Data:
    """What a body holds."""
    fields = {
        name: {"type": ["object", "array"] if name == "definition" else item.kind, "description": item.meaning}
        for name, item in body.items()
    }
    needed = [name for name, item in body.items() if item.required]
    schema: Data = {"type": "object", "properties": fields, "additionalProperties": False}
    return {**schema, "required": needed} if needed else schema


def _responses(route: Route) -> Data:
    """What may be answered."""
    refused = [code for code in REFUSALS if _may_answer(route, code)]
    good = {str(code): {"description": meaning} for code, meaning in route.answers.items()}
    schema = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    return {**good, **{str(code): {"description": REFUSALS[code], "content": schema} for code in refused}}


def _may_answer(route: Route, code: int) -> bool:
    """Whether a refusal can come from a route that exists, asked with one of its methods."""
    if code == 405:
        return False
    if code in _OF_ALL:
        return route.work != "health"
    if route.open:
        return False
    return code not in _OF_BODIES or route.body is not None or (code == 400 and bool(route.query or "{" in route.path))
