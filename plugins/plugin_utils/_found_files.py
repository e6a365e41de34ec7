# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that a task names: found where kubernetes.core looks for them, and decrypted where they are vaulted.

That is in the role and its directory files, beside the playbook and in the directory files there. A path that
only the working directory knows is accepted, too.
"""

from __future__ import annotations

import collections.abc
import os
import typing as t

from ansible.errors import AnsibleError, AnsibleFileNotFound
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

Args = dict[str, t.Any]
Options = collections.abc.Mapping[str, t.Any]
# Options that hold several of what other tasks name one of, with a file for each.
_SEVERAL = ("components", "gangs")


def with_found_files(args: Args, options: Options, find: t.Callable[[str], str], loader: t.Any) -> Args:
    """The arguments with paths of files in place of their names, where the options have such arguments."""

    def real(name: str, option: str) -> str:
        """The file itself, or a decrypted copy that lasts as long as the task; a directory is taken as it is."""
        try:
            path = find(name)
        except AnsibleFileNotFound as error:
            if not os.path.exists(name):
                raise BadInput("find", f"the file {name} ({option})", _where_not(name, error)) from error
            path = os.path.abspath(name)
        if os.path.isdir(path):
            return path
        try:
            return str(loader.get_real_file(path, decrypt=True))
        except AnsibleError as error:
            raise BadInput("read", f"the file {path} ({option})", str(error)) from error

    found = dict(args)
    if "src" in options and isinstance(args.get("src"), str) and args["src"]:
        found["src"] = real(args["src"], "src")
    if "kubeconfig" in options and isinstance(args.get("kubeconfig"), str):
        paths = (path for path in args["kubeconfig"].split(os.pathsep) if path)
        found["kubeconfig"] = os.pathsep.join(real(path, "kubeconfig") for path in paths)
    for several in _SEVERAL:
        items = args.get(several)
        if several in options and isinstance(items, list):
            inner = options[several].get("options") or {}
            found[several] = [
                with_found_files(item, inner, find, loader) if isinstance(item, dict) else item for item in items
            ]
    return found


def _where_not(name: str, error: AnsibleFileNotFound) -> str:
    """Where a file was looked for; of an absolute path there is one place only."""
    places = [str(path) for path in getattr(error, "paths", None) or ()]
    if os.path.isabs(os.path.expanduser(name)) or not places:
        return "there is no such file"
    return f"it is in none of {', '.join(dict.fromkeys(os.path.dirname(path) for path in places))}"
