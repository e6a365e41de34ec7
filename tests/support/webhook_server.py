# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Admission webhooks and policies of a test: slow, down, denying, or taking away what a dispatcher relies on.

The webhooks are served over HTTPS by the test's own process and called by url. Each is limited to one namespace, and
each is known to the API server, which takes a moment to notice, before the test goes on.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import pathlib
import re
import ssl
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import Authority
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, KubeError, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until

Object = dict[str, t.Any]
Kind = t.Literal["validating", "mutating"]

ADMISSION = "admissionregistration.k8s.io/v1"
_CONFIGURATIONS: dict[Kind, tuple[str, str]] = {
    "validating": ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    "mutating": ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
}
# A webhook that takes longer is no webhook: the API server allows no more.
LONGEST_SECONDS = 30
PROBE = "webhook-probe"
# What the dispatcher puts on every object of a gang.
OUR_LABELS = re.compile(r"^muster\.kube/")


class Down(Exception):
    """The webhook does not answer as one should: it fails with a status, or ends the connection when there is none."""

    def __init__(self, status: int | None = 500) -> None:
        """The status to answer with."""
        super().__init__(f"down with {status}")
        self.status = status


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a webhook says about one request: allowed or not, with a message, and a JSON patch when it mutates."""

    allowed: bool = True
    message: str = ""
    changes: tuple[Object, ...] = ()

    def review(self, uid: str) -> Object:
        """The answer as the API server wants it."""
        response: Object = {"uid": uid, "allowed": self.allowed}
        if self.message:
            response["status"] = {"message": self.message, "code": 403}
        if self.changes:
            text = base64.b64encode(json.dumps(self.changes).encode()).decode()
            response.update(patchType="JSONPatch", patch=text)
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


Behavior = t.Callable[[Object], Answer]


def allow(_request: Object) -> Answer:
    """Nothing against it."""
    return Answer()


def slow(seconds: float, *, dry_run: bool = True) -> Behavior:
    """Nothing against it, but it takes its time; without dry_run only where something is really created."""

    def answer(request: Object) -> Answer:
        if dry_run or not request.get("dryRun"):
            time.sleep(seconds)
        return Answer()

    return answer


def down(status: int | None = 500, *, dry_run: bool = False) -> Behavior:
    """Out of order; without dry_run it was in order when the dry run was made."""

    def answer(request: Object) -> Answer:
        if dry_run or not request.get("dryRun"):
            raise Down(status)
        return Answer()

    return answer


def deny(message: str, *, dry_run: bool = False) -> Behavior:
    """Against it; without dry_run only when it is meant in earnest."""

    def answer(request: Object) -> Answer:
        if dry_run or not request.get("dryRun"):
            return Answer(False, message)
        return Answer()

    return answer


def strip(*, owners: bool = False, labels: bool = False, dry_run: bool = False) -> Behavior:
    """Take the owners or our labels away, for a mutating webhook; without dry_run only in earnest."""

    def answer(request: Object) -> Answer:
        if request.get("dryRun") and not dry_run:
            return Answer()
        meta = request["object"]["metadata"]
        changes: list[Object] = []
        if owners and meta.get("ownerReferences"):
            changes.append({"op": "remove", "path": "/metadata/ownerReferences"})
        if labels:
            ours = [name for name in meta.get("labels") or {} if OUR_LABELS.match(name)]
            changes += [
                {"op": "remove", "path": f"/metadata/labels/{name.replace('~', '~0').replace('/', '~1')}"}
                for name in ours
            ]
        return Answer(changes=tuple(changes))

    return answer


class Hook:
    """One registered webhook; its behavior can be changed at any time, its calls are kept."""

    def __init__(self, name: str) -> None:
        """It allows everything until it is told otherwise."""
        self.name = name
        self.behavior: Behavior = allow
        self.calls: list[Object] = []

    def asked(self, *, dry_run: bool | None = None) -> list[Object]:
        """The requests it was asked about, without probes; all of them, only dry runs, or only those in earnest."""
        return [
            request
            for request in self.calls
            if request.get("name") != PROBE and dry_run in (None, bool(request.get("dryRun")))
        ]


class WebhookServer:
    """Serves webhooks while its with block lasts; at its end all of them are unregistered."""

    def __init__(self, client: KubeClient, directory: pathlib.Path) -> None:
        """The certificate is made in the directory; the client registers, so it must be a cluster administrator's."""
        self._client = client
        self._hooks: dict[str, Hook] = {}
        self._registered: list[str] = []
        place = directory / "webhook"
        place.mkdir()
        authority = Authority(place, "webhook-authority")
        authority.ensure_certificate(place / "tls", "webhook", (), ("127.0.0.1", "localhost"))
        self._bundle = base64.b64encode((place / "ca.crt").read_bytes()).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place / "tls.crt", place / "tls.key")
        handler = type("Handler", (_Handler,), {"hooks": self._hooks})
        self._server = _Server(("127.0.0.1", 0), handler, context)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> WebhookServer:
        """Start to serve."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *ignored: object) -> None:
        """Unregister everything, then stop."""
        for path in self._registered:
            with contextlib.suppress(NotFound):
                delete(self._client, path)
        self._server.shutdown()
        self._server.server_close()

    def register(
        self,
        kind: Kind,
        namespace: str,
        probe: Object,
        behavior: Behavior,
        *,
        labels: t.Mapping[str, str] | None = None,
        operations: t.Sequence[str] = ("CREATE",),
        timeout: int = LONGEST_SECONDS,
    ) -> Hook:
        """Register a webhook for objects of the probe's kind in a namespace, with these labels where given.

        The probe is an object that it concerns: dry runs of it show when the API server has noticed the webhook.
        """
        plural = f"{probe['kind'].lower()}s"
        hook = Hook(f"{namespace}-{kind}-{len(self._hooks)}")
        self._hooks[f"/{hook.name}"] = hook
        group, _slash, version = probe["apiVersion"].rpartition("/")
        rule = {"apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": [*operations]}
        entry = {
            "name": f"{hook.name}.example.com",
            "clientConfig": {"url": f"{self.url}/{hook.name}", "caBundle": self._bundle},
            "rules": [rule],
            "namespaceSelector": _only(namespace),
            "objectSelector": {"matchLabels": dict(labels or {})},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": timeout,
            "failurePolicy": "Fail",
        }
        word, collection = _CONFIGURATIONS[kind]
        meta = {"name": hook.name}
        body = {"apiVersion": ADMISSION, "kind": word, "metadata": meta, "webhooks": [entry]}
        path = resource_path(ADMISSION, collection)
        create(self._client, path, body)
        self._registered.append(f"{path}/{hook.name}")
        self._wait_until_known(hook, namespace, plural, probe, dict(labels or {}))
        hook.behavior = behavior
        return hook

    def _wait_until_known(self, hook: Hook, namespace: str, plural: str, probe: Object, labels: dict[str, str]) -> None:
        """Try to create the probe until the webhook is asked about it."""
        path = resource_path(probe["apiVersion"], plural, namespace)
        body = {**probe, "metadata": {"name": PROBE, "labels": labels}}

        def known() -> bool:
            with contextlib.suppress(KubeError):
                create(self._client, path, body, dry_run=True)
            return bool(hook.calls)

        wait_until(f"webhook {hook.name}", known)


@contextlib.contextmanager
def update_denied(client: KubeClient, namespace: str, name: str) -> t.Iterator[None]:
    """A policy of the API server that denies every update of one ConfigMap; gone when the block is left."""
    title = f"{namespace}-{name}-stays"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["UPDATE"]}
    policy = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": title},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": _only(namespace)},
            "validations": [
                {"expression": f"object.metadata.name != '{name}'", "message": f"{name} stays as it is"},
            ],
        },
    }
    binding = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": title},
        "spec": {"policyName": title, "validationActions": ["Deny"]},
    }
    policies = resource_path(ADMISSION, "validatingadmissionpolicies")
    bindings = resource_path(ADMISSION, "validatingadmissionpolicybindings")
    path = resource_path("v1", "configmaps", namespace, name)
    try:
        create(client, policies, policy)
        create(client, bindings, binding)
        wait_until(f"the policy for {name}", lambda: _is_denied(client, path))
        yield
    finally:
        for obj_path in (f"{bindings}/{title}", f"{policies}/{title}"):
            with contextlib.suppress(NotFound):
                delete(client, obj_path)


def _is_denied(client: KubeClient, path: str) -> bool:
    """Whether an update of an object is refused by now."""
    try:
        patch(client, path, {"metadata": {"annotations": {PROBE: "true"}}}, dry_run=True)
    except ApiError as error:
        return "stays as it is" in str(error)
    return False


def _only(namespace: str) -> Object:
    """A selector of one namespace."""
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


class _Server(ThreadingHTTPServer):
    """A server whose connections shake hands in their own threads, so that a silent client holds up nobody."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: t.Any, context: ssl.SSLContext) -> None:
        """Listen."""
        super().__init__(address, handler)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    """One connection of the API server."""

    protocol_version = "HTTP/1.1"
    hooks: dict[str, Hook]

    def do_POST(self) -> None:
        """Ask the webhook of this path."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        hook, request = self.hooks[self.path.partition("?")[0]], body["request"]
        hook.calls.append(request)
        try:
            answer = hook.behavior(request)
        except Down as error:
            if error.status is None:
                self.close_connection = True
            else:
                self._send(error.status, b"{}")
            return
        self._send(200, json.dumps(answer.review(request["uid"])).encode())

    def _send(self, status: int, body: bytes) -> None:
        """The whole answer; a client that gave up meanwhile cannot be told."""
        with contextlib.suppress(OSError):
            self.send_response_only(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002
        """Say nothing."""
