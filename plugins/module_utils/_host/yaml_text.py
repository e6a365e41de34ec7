# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading YAML: the one place that knows PyYAML."""

from __future__ import annotations

import functools
import math
import traceback
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary

YAML_IMPORT_ERROR: str | None = None
try:
    import yaml
except ImportError:
    YAML_IMPORT_ERROR = traceback.format_exc()


# Aliases let a short text become more values than any memory has; nothing honest has so many, or so deep.
_MOST_VALUES = 5_000_000
_DEEPEST = 200


def load_yaml(text: str | bytes, where: str) -> list[t.Any]:
    """The documents of a YAML (or JSON) text, empty ones left out; errors name the text by `where`.

    Dates stay the text they are, as Kubernetes reads them, and what has no form in JSON is refused.
    """
    if YAML_IMPORT_ERROR:
        raise MissingLibrary("PyYAML", YAML_IMPORT_ERROR)
    try:
        documents = [document for document in yaml.load_all(text, Loader=_loader()) if document is not None]
        form = _JsonForm()
        return [form.of(document) for document in documents]
    except RecursionError as error:
        raise BadInput("read", where, "it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput("read", where, f"it is not YAML: {' '.join(str(error).split())}") from error


@functools.cache
def _loader() -> type[t.Any]:
    """The fast parser where PyYAML has it, since upstream CRDs have megabytes, without a type for dates."""
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in base.yaml_implicit_resolvers.items()
    }
    return type("_Loader", (base,), {"yaml_implicit_resolvers": resolvers})


class _JsonForm:
    """Values as JSON has them: keys are texts, and there is an end to everything."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._left = _MOST_VALUES

    def of(self, value: t.Any, depth: int = 0) -> t.Any:
        """The same value in that form; ValueError if it has none."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise ValueError(
                "it is nested too deeply" if depth > _DEEPEST else f"it has more than {_MOST_VALUES} values"
            )
        if isinstance(value, dict):
            found = {_key_text(key): self.of(item, depth + 1) for key, item in value.items()}
            if len(found) < len(value):
                raise ValueError("a key is there twice, once as a text")
            return found
        if isinstance(value, list):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no number in JSON")
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise ValueError(f"{type(value).__name__} is nothing that JSON has")


def _key_text(key: t.Any) -> str:
    """A key as a text, as Kubernetes reads it."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    raise ValueError(f"{key!r} is no key in JSON")
