# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates that programs accept, and a kubeconfig that clients can read."""

from __future__ import annotations

import base64
import ssl
import stat

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import build_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import (
    Authority,
    ensure_certificates,
    ensure_kubeconfig,
    ensure_node_certificate,
    kubeconfig_text,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import Layout
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterSpec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@pytest.fixture
def layout(tmp_path, catalogue_data):
    """A cluster with its certificates made."""
    made = Layout(tmp_path, "c")
    ensure_certificates(made, build_catalogue(catalogue_data).processes(ClusterSpec("c", operators=("ray",))))
    return made


def load(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(certificate, kind):
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name) for name in found.get_values_for_type(kind)]


def test_the_kubelet_is_reached_by_the_address_of_its_node(layout):
    ensure_node_certificate(layout, "real-0", "10.213.7.1")
    certificate = load(layout.certificates / "kubelet-serving.crt")
    certificate.verify_directly_issued_by(load(layout.certificates / "ca.crt"))
    assert (names(certificate, x509.IPAddress), names(certificate, x509.DNSName)) == (["10.213.7.1"], ["real-0"])


def test_every_certificate_is_signed_by_its_authority(layout):
    for name in ("serving", "admin", "clients/kube-scheduler", "clients/ray"):
        load(layout.certificates / f"{name}.crt").verify_directly_issued_by(load(layout.certificates / "ca.crt"))
    load(layout.certificates / "ray/tls.crt").verify_directly_issued_by(load(layout.certificates / "ray/ca.crt"))


def test_users_and_groups_are_in_the_subject(layout):
    subject = load(layout.certificates / "clients/ray.crt").subject
    assert [item.value for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["ray"]
    assert [item.value for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]
    scheduler = load(layout.certificates / "clients/kube-scheduler.crt").subject
    assert scheduler.rfc4514_string() == "CN=system:kube-scheduler"


def test_the_api_server_is_reached_by_loopback_and_by_service(layout):
    serving = load(layout.certificates / "serving.crt")
    assert {"127.0.0.1", "10.96.0.1"} <= set(names(serving, x509.IPAddress))
    assert {"localhost", "kubernetes.default.svc"} <= set(names(serving, x509.DNSName))


def test_an_operator_gets_its_own_authority_and_copies_where_it_looks(layout):
    assert names(load(layout.certificates / "ray/ca.crt"), x509.DNSName) == ["ray-ca"]
    assert "ray.svc" in names(load(layout.certificates / "ray/tls.crt"), x509.DNSName)
    copy = layout.certificates / "ray" / "serving" / "tls.key"
    assert copy.read_bytes() == (layout.certificates / "ray" / "tls.key").read_bytes()


def test_tls_accepts_the_pair(layout):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(layout.certificates / "serving.crt", layout.certificates / "serving.key")
    context.load_verify_locations(layout.certificates / "ca.crt")
    assert context.cert_store_stats()["x509_ca"] == 1


def test_keys_are_private(layout):
    keys = list(layout.certificates.rglob("*.key"))
    assert len(keys) == 9
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in keys)


def test_a_second_run_keeps_every_file(layout, catalogue_data):
    before = {path: path.stat().st_ino for path in layout.certificates.rglob("*") if path.is_file()}
    ensure_certificates(layout, build_catalogue(catalogue_data).processes(ClusterSpec("c", operators=("ray",))))
    assert {path: path.stat().st_ino for path in layout.certificates.rglob("*") if path.is_file()} == before


def test_an_authority_of_another_kind_is_refused_rather_than_replaced(tmp_path):
    Authority(tmp_path, "x")
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "ca.key").write_bytes(key)
    with pytest.raises(MusterError, match="not an RSA key"):
        Authority(tmp_path, "x").ensure_certificate(tmp_path / "client", "y")


def test_a_kubeconfig_holds_everything():
    config = yaml.safe_load(kubeconfig_text("c", "https://127.0.0.1:5", b"ca", b"crt", b"key"))
    assert config["current-context"] == "muster-c"
    assert config["contexts"][0]["context"] == {"cluster": "muster-c", "user": "muster-c"}
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:5"
    user = config["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == b"key"
    assert base64.b64decode(user["client-certificate-data"]) == b"crt"


def test_a_kubeconfig_is_rewritten_only_when_it_differs(layout):
    ensure_kubeconfig(layout.kubeconfig, layout, "https://127.0.0.1:5", layout.certificates / "admin")
    before = layout.kubeconfig.stat()
    ensure_kubeconfig(layout.kubeconfig, layout, "https://127.0.0.1:5", layout.certificates / "admin")
    assert layout.kubeconfig.stat().st_ino == before.st_ino
    ensure_kubeconfig(layout.kubeconfig, layout, "https://127.0.0.1:6", layout.certificates / "admin")
    assert "127.0.0.1:6" in layout.kubeconfig.read_text()
