# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading YAML: the one place that knows PyYAML."""

from __future__ import annotations

import functools
import traceback
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary

YAML_IMPORT_ERROR: str | None = None
try:
    import yaml
except ImportError:
    YAML_IMPORT_ERROR = traceback.format_exc()


def load_yaml(text: str | bytes, where: str) -> list[t.Any]:
    """The documents of a YAML (or JSON) text, empty ones left out; errors name the text by `where`.

    Dates stay the text they are, as Kubernetes reads them.
    """
    if YAML_IMPORT_ERROR:
        raise MissingLibrary("PyYAML", YAML_IMPORT_ERROR)
    try:
        return [document for document in yaml.load_all(text, Loader=_loader()) if document is not None]
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
