# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a connection's settings come from, as text for errors: users have to know which file or option to mend."""

from __future__ import annotations

import os
import typing as t

Options = t.Mapping[str, t.Any]
Environment = t.Mapping[str, str]

USUAL_KUBECONFIG = "~/.kube/config"


def kubeconfig_words(options: Options, environ: Environment) -> str:
    """The kubeconfig in force."""
    given = options.get("kubeconfig")
    if isinstance(given, t.Mapping):
        return "the kubeconfig given as a mapping"
    if given:
        return f"the kubeconfig {given}"
    named = environ.get("KUBECONFIG")
    return f"the kubeconfig {named} of KUBECONFIG" if named else f"the kubeconfig {USUAL_KUBECONFIG}"


def missing_file(options: Options, environ: Environment) -> str | None:
    """What to say when the kubeconfig is no file; None when there is one, of several at least one."""
    given = options.get("kubeconfig") or environ.get("KUBECONFIG")
    paths = str(given or USUAL_KUBECONFIG).split(os.pathsep)
    if any(os.path.exists(os.path.expanduser(path)) for path in paths if path):
        return None
    missing = "there is no such file"
    return missing if given else f"{missing}, and neither kubeconfig nor KUBECONFIG names another"


def credential_words(auth: Options, options: Options, environ: Environment, kind: str | None) -> str:
    """The credentials that are sent and where they come from; kind is what they are, None without any."""
    if kind is None:
        return "a request without credentials"
    if kind == "token" and options.get("api_key") is not None:
        return f"the token of {'the option api_key' if auth.get('api_key') is not None else 'K8S_AUTH_API_KEY'}"
    if kind != "token" and any(options.get(name) for name in ("username", "client_cert")):
        return f"the {kind} of the connection options"
    if "KUBERNETES_SERVICE_HOST" in environ and not options.get("kubeconfig") and not options.get("context"):
        return f"the {kind} of this pod's ServiceAccount"
    return f"the {kind} of {kubeconfig_words(options, environ)}"
