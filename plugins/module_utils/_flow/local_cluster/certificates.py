# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys, certificates and kubeconfig files of a local cluster."""

from __future__ import annotations

import base64
import collections.abc
import datetime
import functools
import ipaddress
import json
import pathlib
import traceback

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import Layout
from ansible_collections.muster.kube.plugins.module_utils._host.files import ensure_file, write_file
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ProcessSpec
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.real_node import SERVICE_ADDRESS
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

CRYPTOGRAPHY_IMPORT_ERROR: str | None = None
try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    CRYPTOGRAPHY_IMPORT_ERROR = traceback.format_exc()

VALID_DAYS = 3650
SERVING_NAMES = (
    "localhost",
    "127.0.0.1",
    SERVICE_ADDRESS,
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class Authority:
    """A certificate authority in ca.crt and ca.key of a directory; RSA, since some operators can read no other key."""

    def __init__(
        self, directory: pathlib.Path, name: str, alternative_names: collections.abc.Sequence[str] = ()
    ) -> None:
        """Make the authority when it is missing; an existing one is read when it has to sign."""
        self.certificate_file, self.key_file = directory / "ca.crt", directory / "ca.key"
        if self.certificate_file.is_file() and self.key_file.is_file():
            return
        self.key = key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = _subject(name)
        builder = _builder(subject, subject, key.public_key(), alternative_names)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        write_file(self.key_file, _key_text(key))
        write_file(self.certificate_file, _certificate_text(builder.sign(key, hashes.SHA256())))

    @functools.cached_property
    def certificate(self) -> x509.Certificate:
        """The certificate in its file."""
        return x509.load_pem_x509_certificate(self.certificate_file.read_bytes())

    @functools.cached_property
    def key(self) -> rsa.RSAPrivateKey:
        """The key in its file; reading one costs a tenth of a second."""
        loaded = serialization.load_pem_private_key(self.key_file.read_bytes(), password=None)
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise MusterError("use", str(self.key_file), "it is not an RSA key; remove the cluster and make it anew")
        return loaded

    def ensure_certificate(
        self,
        path: pathlib.Path,
        name: str,
        organizations: collections.abc.Sequence[str] = (),
        alternative_names: collections.abc.Sequence[str] = (),
    ) -> None:
        """A certificate and key at path.crt and path.key, made when missing; good for serving and for clients."""
        certificate_file, key_file = path.with_suffix(".crt"), path.with_suffix(".key")
        if certificate_file.is_file() and key_file.is_file():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name, organizations), self.certificate.subject, key.public_key(), alternative_names)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        write_file(key_file, _key_text(key))
        write_file(certificate_file, _certificate_text(builder.sign(self.key, hashes.SHA256())))


def ensure_certificates(layout: Layout, processes: collections.abc.Iterable[ProcessSpec]) -> None:
    """Keys and certificates of all processes; existing files are kept."""
    directory = layout.certificates
    authority = Authority(directory, f"muster-{layout.name}")
    authority.ensure_certificate(directory / "serving", "kube-apiserver", (), SERVING_NAMES)
    authority.ensure_certificate(directory / "admin", "kubernetes-admin", ("system:masters",))
    if not (directory / "service-account.pub").is_file():
        key = ec.generate_private_key(ec.SECP256R1())
        write_file(directory / "service-account.key", _key_text(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_file(directory / "service-account.pub", public)
    for process in processes:
        if process.is_client:
            authority.ensure_certificate(directory / "clients" / process.name, process.user, process.groups)
        serving = process.certificate
        if serving is not None:
            folder = directory / process.name
            own = Authority(folder, serving.authority, (serving.authority,))
            own.ensure_certificate(folder / "tls", serving.names[0], (), (*serving.names, "localhost", "127.0.0.1"))
            if serving.directory:
                for name in ("tls.crt", "tls.key"):
                    ensure_file(folder / serving.directory / name, (folder / name).read_bytes())


def ensure_node_certificate(layout: Layout, name: str, address: str) -> None:
    """The certificate with which the kubelet serves logs; removed with the node, whose name it holds."""
    authority = Authority(layout.certificates, f"muster-{layout.name}")
    authority.ensure_certificate(
        layout.certificates / "kubelet-serving", f"system:node:{name}", ("system:nodes",), (name, address)
    )


def ensure_kubeconfig(path: pathlib.Path, layout: Layout, server: str, certificate: pathlib.Path) -> None:
    """A kubeconfig with everything inside it, so that it can be copied; written only when it differs."""
    content = kubeconfig_text(
        layout.name,
        server,
        (layout.certificates / "ca.crt").read_bytes(),
        certificate.with_suffix(".crt").read_bytes(),
        certificate.with_suffix(".key").read_bytes(),
    )
    ensure_file(path, content.encode())


def kubeconfig_text(cluster: str, server: str, authority: bytes, certificate: bytes, key: bytes) -> str:
    """The text of a kubeconfig, as JSON, which is YAML too."""
    name = f"muster-{cluster}"
    ca_data, certificate_data, key_data = (base64.b64encode(item).decode() for item in (authority, certificate, key))
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": ca_data}}],
        "users": [{"name": name, "user": {"client-certificate-data": certificate_data, "client-key-data": key_data}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    return json.dumps(config, indent=2) + "\n"


def _subject(name: str, organizations: collections.abc.Sequence[str] = ()) -> x509.Name:
    """A subject: the user is the common name, its groups are organizations."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    alternative_names: collections.abc.Sequence[str],
) -> x509.CertificateBuilder:
    """What all our certificates have in common. They are valid from yesterday on, since clocks differ a little."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    if alternative_names:
        names = [_general_name(name) for name in alternative_names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder


def _general_name(name: str) -> x509.GeneralName:
    """An address or a DNS name in the form of certificates."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    """What a key may be used for."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_text(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """A private key as PEM, in the older form that all our programs can read."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _certificate_text(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)
