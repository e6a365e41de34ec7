# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An action plugin made for tests, whose work is done inside of the Ansible process, and the module it stands for."""

from __future__ import annotations

import pathlib

_ACTION = """
import json, os, pathlib
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.plugin_utils._in_process import InProcessAction

HERE = pathlib.Path(__file__).parent

def libraries():
    if os.environ.get("WITHOUT_LIBRARY"):
        raise MissingLibrary("thing", "trace")

def work(options, call):
    params, checked = options
    call.report(f"working on {params['text']} with {params['token']}")
    if params["fail"]:
        raise MusterError("do", "it", f"not with {params['token']}")
    json.dumps(params)
    read = lambda path: open(path).read() if path else None
    if params["src"] or params["gangs"]:
        return {"src": read(params["src"]), "gangs": [read(gang["src"]) for gang in params["gangs"] or ()],
                "kubeconfig": params["kubeconfig"] if isinstance(params["kubeconfig"], dict) else
                [read(path) for path in (params["kubeconfig"] or "").split(":") if path]}
    types = sorted({type(params["text"]).__name__, *(type(v).__name__ for v in (params["more"] or {}).values())})
    return {"changed": True, "text": params["text"], "seen": f"{params['token']} {params['hidden']}",
            "types": types, "checked": checked, "diff": call.diff, "called": call.check_mode,
            "variable": os.environ.get("TASK_VARIABLE"), "folder": params["folder"], "parts": params["parts"]}

class ActionModule(InProcessAction):
    face = Face(
        name="trial",
        spec={"text": {"type": "str", "default": "none"}, "token": {"type": "str", "no_log": True},
              "more": {"type": "dict"}, "number": {"type": "int"}, "fail": {"type": "bool"},
              "other": {"type": "str"}, "hidden": {"type": "str"}, "program": {"type": "str"},
              "src": {"type": "path"}, "folder": {"type": "path"}, "parts": {"type": "dict"},
              "kubeconfig": {"type": "raw"},
              "gangs": {"type": "list", "elements": "dict", "options": {"src": {"type": "path"}}}},
        rules={"mutually_exclusive": [["number", "other"]]},
        options=lambda params, check_mode: (params, check_mode),
        work=work,
        libraries=libraries,
        masks=lambda params: [params["hidden"]] if params["hidden"] else [],
        files={"text": str(HERE / "text"), "program": str(HERE / "program"), "folder": str(HERE / "parts"),
               "parts": str(HERE / "parts" / "*.txt")},
    )
"""

_MODULE = """#!/usr/bin/python
from __future__ import annotations
from ansible.module_utils.basic import AnsibleModule
def main():
    spec = {"text": {"type": "str"}, "program": {"type": "str"}, "folder": {"type": "path"}, "parts": {"type": "dict"}}
    module = AnsibleModule(spec, supports_check_mode=True)
    module.exit_json(changed=False, ran="module", text=module.params["text"])
if __name__ == "__main__":
    main()
"""


def write_trial(project: pathlib.Path) -> None:
    """Put both beside a playbook, where tasks know them as trial, with the files that fill its options."""
    for folder, content in (("action_plugins", _ACTION), ("library", _MODULE)):
        (project / folder).mkdir()
        (project / folder / "trial.py").write_text(content, encoding="utf-8")
    beside = project / "action_plugins"
    (beside / "text").write_text("from the controller", encoding="utf-8")
    (beside / "program").write_text("p" * 5000, encoding="utf-8")
    (beside / "parts").mkdir()
    for name in ("one.txt", "two.txt", "three.md"):
        (beside / "parts" / name).write_text(f"own {name}", encoding="utf-8")
