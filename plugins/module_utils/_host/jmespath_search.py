# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one place that uses jmespath: expressions over live objects."""

from __future__ import annotations

import traceback
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary

JMESPATH_IMPORT_ERROR: str | None = None
try:
    import jmespath
    import jmespath.exceptions
except ImportError:
    JMESPATH_IMPORT_ERROR = traceback.format_exc()


def search(expression: str, value: t.Any) -> t.Any:
    """What an expression finds in a value; an expression that makes no sense is refused."""
    if JMESPATH_IMPORT_ERROR:
        raise MissingLibrary("jmespath", JMESPATH_IMPORT_ERROR)
    try:
        return jmespath.search(expression, value)
    except jmespath.exceptions.JMESPathError as error:
        raise BadInput("evaluate", f"jmespath expression {expression!r}", str(error)) from error
