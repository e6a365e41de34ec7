# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of tests/tools as modules: they lie in no package, since they run before the collection can be imported."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types

TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools"


def load_tool(name: str) -> types.ModuleType:
    """The program of that name."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
