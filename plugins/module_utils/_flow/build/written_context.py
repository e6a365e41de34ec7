# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The build context of a stack as a folder, so that anybody can build the very image by hand."""

from __future__ import annotations

import os
import pathlib

from ansible_collections.muster.kube.plugins.module_utils._host.files import write_file
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import ContextFile, build_context

_DOCKERFILE = "Dockerfile"


def write_context(spec: BuildSpec, dest: str, *, dry: bool = False) -> Data:
    """Make a folder hold the Dockerfile and its files; what has the right bytes and mode is left alone.

    Secrets are not written: the stack only names them. Files that are not of this stack are no reason to fail, but
    nobody may find another stack's Dockerfile in the end.
    """
    folder = pathlib.Path(os.path.expanduser(dest))
    context = build_context(spec.stack)
    wanted = [ContextFile(_DOCKERFILE, context.dockerfile.encode()), *context.files]
    try:
        if folder.exists() and not folder.is_dir():
            raise BadInput("write to", f"context_dest {folder}", "it is no folder")
        changed = [file for file in wanted if not _is_written(folder / file.name, file)]
        for file in changed if not dry else ():
            _write(folder / file.name, file)
    except OSError as error:
        raise MusterError("write to", f"context_dest {folder}", error.strerror or str(error)) from error
    return {
        "changed": bool(changed),
        "context_dest": str(folder),
        "context_files": [file.name for file in wanted],
        "dockerfile": context.dockerfile,
        "spec_hash": spec.spec_hash,
        "image": spec.reference,
        "engine_used": "none",
    }


def _is_written(path: pathlib.Path, file: ContextFile) -> bool:
    """Whether a file is there as it shall be; a link is none of ours."""
    if path.is_symlink() or not path.is_file():
        return False
    return path.stat().st_mode & 0o7777 == int(file.mode, 8) and path.read_bytes() == file.content


def _write(path: pathlib.Path, file: ContextFile) -> None:
    """Write one file in one step, with its mode."""
    write_file(path, file.content, int(file.mode, 8), folder_mode=0o777)
