# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster with trainings and the HTTP service's program beside it: accounts, tokens of pods, certificates.

Pods are simulated, their tokens are real: the API server makes them for a pod, and takes them back with it.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import ipaddress
import json
import os
import pathlib
import queue
import signal
import ssl
import subprocess
import sys
import threading
import typing as t

import yaml
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.tests.support.accounts import RBAC
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.http_service import PATIENCE, HttpCaller
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import NameOID

Object = dict[str, t.Any]

GPU = "nvidia.com/gpu"
PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "extensions/service/elastic_service.py"
TRAINER_FILE = pathlib.Path(__file__).resolve().parents[2] / "roles/elastic_training/files/muster_trainer.py"


class ServiceProcess:
    """The service's program, which can be killed, stopped and started again at another port."""

    def __init__(self, folder: pathlib.Path, server: str, token: str, authority: str, *options: str) -> None:
        """The program reaches the API server, or a proxy before it, with this token; folder has its certificate."""
        self.folder = folder
        self._options = options
        self._environment = {
            "PATH": os.environ["PATH"],
            "K8S_AUTH_HOST": server,
            "K8S_AUTH_API_KEY": token,
            "K8S_AUTH_SSL_CA_CERT": authority,
            # Nothing is written beside the program.
            "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX", str(folder / "pycache")),
        }
        self._process: subprocess.Popen[str] | None = None
        self.lines: list[str] = []
        self.context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
        self.caller = HttpCaller(0, self.context)

    def start(self) -> HttpCaller:
        """Run it; returns a client of it once it listens."""
        command = [sys.executable, str(PROGRAM), "--host", "127.0.0.1", "--port", "0"]
        command += ["--certificate", str(self.folder / "tls.crt"), "--key", str(self.folder / "tls.key")]
        self._process = subprocess.Popen(
            [*command, *self._options],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        ports: queue.Queue[int | None] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, ports), daemon=True).start()
        port = ports.get(timeout=PATIENCE)
        assert port is not None, self.lines
        self.caller = HttpCaller(port, self.context)
        return self.caller

    def _read(self, process: subprocess.Popen[str], ports: queue.Queue[int | None]) -> None:
        """Keep what it says, and hear where it listens."""
        assert process.stderr is not None
        for line in process.stderr:
            self.lines.append(line.rstrip())
            _before, listening, after = line.partition("listening at port ")
            if listening:
                ports.put(int(after.partition(",")[0]))
        ports.put(None)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> int:
        """End it at once; how it ended."""
        assert self._process is not None
        self._process.kill()
        return self._process.wait(PATIENCE)

    def end(self) -> int:
        """Ask it to end; how it ended."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)

    @contextlib.contextmanager
    def running(self) -> t.Iterator[HttpCaller]:
        """The program as long as the block lasts."""
        try:
            yield self.start()
        finally:
            self.kill()


def write_certificate(folder: pathlib.Path) -> None:
    """A certificate for this machine that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    signed = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    folder.joinpath("tls.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    folder.joinpath("tls.key").write_bytes(text)


def server_of(cluster: LiveCluster, folder: pathlib.Path) -> tuple[str, str]:
    """The address of the API server, and a file with its certificate."""
    config = yaml.safe_load(pathlib.Path(cluster.kubeconfig).read_text(encoding="utf-8"))
    found = config["clusters"][0]["cluster"]
    if "certificate-authority" in found:
        return found["server"], found["certificate-authority"]
    place = folder / "authority.crt"
    place.write_bytes(base64.b64decode(found["certificate-authority-data"]))
    return found["server"], str(place)


def token_of(cluster: LiveCluster, namespace: str, account: str, pod: Object | None = None) -> str:
    """A token of an account, for a pod if one is given."""
    bound = None
    if pod is not None:
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    spec = {} if bound is None else {"boundObjectRef": bound}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": spec}
    path = resource_path("v1", "serviceaccounts", namespace, account, "token")
    return str(create(cluster.client, path, request)["status"]["token"])


def expired(cluster: LiveCluster, token: str) -> str:
    """The same token as it would be had it ended an hour ago, signed by the cluster's own key."""
    place = next(pathlib.Path(cluster.kubeconfig).parent.rglob("service-account.key"))
    key = serialization.load_pem_private_key(place.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    head, body, _signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    length = claims["exp"] - claims["iat"]
    claims |= {"iat": claims["iat"] - length - 3600, "nbf": claims["nbf"] - length - 3600}
    claims["exp"] = claims["iat"] + length
    text = f"{head}.{_base64(json.dumps(claims).encode())}"
    numbers = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_base64(b''.join(number.to_bytes(32, 'big') for number in numbers))}"


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def account(cluster: LiveCluster, namespace: str, name: str, *rules: Object) -> str:
    """A token of a new account with these rights in its namespace."""
    meta = {"name": name, "namespace": namespace}
    cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    if rules:
        cluster.create({"apiVersion": RBAC, "kind": "Role", "metadata": meta, "rules": list(rules)})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", **meta}
        binding = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": meta}
        cluster.create({**binding, "roleRef": reference, "subjects": [subject]})
    wait_until(f"a token of {name}", lambda: token_of(cluster, namespace, name))
    return token_of(cluster, namespace, name)


def start_training(stage: Stage, name: str, gpus: int, sizes: tuple[int, int], **terms: t.Any) -> None:
    """A gang of one pod that runs."""
    made = stage.job(f"{name}-job", 1, **{"cpu": "100m", GPU: str(gpus)})
    stage.submit(name, made, elastic={"range": {"min": sizes[0], "max": sizes[1]}, **terms})
    stage.run_until({name: "running"})


def trainer_token(stage: Stage, name: str) -> str:
    """The token of the pod of a gang."""
    uid = stage.record(name).uid
    pod = next(item for item in stage.pods(f"muster.kube/gang={uid}"))
    return token_of(stage.cluster, stage.namespace, pod["spec"]["serviceAccountName"], pod)
