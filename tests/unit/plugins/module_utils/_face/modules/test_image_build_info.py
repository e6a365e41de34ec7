# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of image_build_info."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.modules.image_build_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.build.info import BuildInfoOptions


def test_the_question_of_the_info_module():
    given = {**{name: entry.get("default") for name, entry in FACE.spec.items()}, "label_selectors": ["a=b", "c"]}
    assert FACE.options(given, False) == BuildInfoOptions(
        namespace=None, name=None, spec_hash=None, image=None, labels="a=b,c", log=True
    )
