# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one door to the kubernetes client library: connection options become a transport for raw requests.

The option names, environment variables and their order of precedence are those of kubernetes.core. Its get_api_client
is not used: it asks the server for /version and /apis at once, without retries, and keeps a cache file in the
temporary directory. What is used of the library is small and the same from release 24.2 to 37: the
loaders of kubeconfig and in-cluster configuration, token refresh, and the connection pool of ApiClient.
"""

from __future__ import annotations

import copy
import ipaddress
import os
import re
import ssl
import threading
import traceback
import typing as t
import urllib.parse
import urllib.request
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._kube.access.kubeconfig import build_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._kube.connection_words import (
    USUAL_KUBECONFIG,
    credential_words,
    kubeconfig_words,
    missing_file,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import BadConnection
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary

try:
    import urllib3
    from kubernetes import client as kubernetes_client
    from kubernetes import config as kubernetes_config
    from kubernetes.config import kube_config

    # At the top of urllib3 only since its release 2.
    from urllib3._collections import HTTPHeaderDict
except ImportError:
    IMPORT_TRACEBACK: str | None = traceback.format_exc()
else:
    IMPORT_TRACEBACK = None
    # The library's loaders carry no types.
    _loaders: t.Any = kubernetes_config
    _YAML_ERROR: t.Any = vars(kube_config)["yaml"].YAMLError

# Option of ours and kubernetes.core -> attribute of the library's configuration.
_ATTRIBUTES = {
    "host": "host",
    "api_key": "api_key",
    "username": "username",
    "password": "password",
    "validate_certs": "verify_ssl",
    "ca_cert": "ssl_ca_cert",
    "client_cert": "cert_file",
    "client_key": "key_file",
    "proxy": "proxy",
    "no_proxy": "no_proxy",
}
_NOT_ATTRIBUTES = ("kubeconfig", "context", "persist_config", "impersonate_user", "impersonate_groups")
_PROXY_HEADERS = ("proxy_basic_auth", "basic_auth", "user_agent")
_BOOLEANS = ("validate_certs", "persist_config")
_POOL_SIZE = 16
_OBJECT_ADDRESS = re.compile(r"<[^>]* object at 0x[0-9a-f]+>: ")
_POOL_ADDRESS = re.compile(r"^HTTPS?Connection(?:Pool)?\(([^)]*)\): ")

Timeout = tuple[float, float]


class TransportFault(Exception):
    """No complete answer came; retryable tells whether the same request may work a moment later."""

    def __init__(self, cause: str, retryable: bool) -> None:
        super().__init__(cause)
        self.cause = cause
        self.retryable = retryable


class Stream:
    """An answer whose body is read line by line while the server is still writing it."""

    def __init__(self, response: t.Any) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: t.Mapping[str, str] = response.headers

    def read(self) -> bytes:
        """The whole remaining body; for error answers."""
        try:
            return t.cast(bytes, self._response.read())
        except _network_errors() as error:
            raise _fault(error) from error

    def lines(self) -> t.Iterator[bytes]:
        """Every complete line as soon as it is there, without the line end."""
        rest = b""
        try:
            for chunk in self._response.stream(65536, decode_content=True):
                *complete, rest = (rest + chunk).split(b"\n")
                yield from complete
        except _network_errors() as error:
            raise _fault(error) from error
        if rest:
            yield rest

    def abort(self) -> None:
        """End the stream from another thread: the blocked reader wakes up with the end of the body."""
        connection = getattr(self._response, "connection", None)
        sock = getattr(connection, "sock", None)
        if sock is not None:
            try:
                sock.shutdown(2)
            except OSError:
                return

    def close(self) -> None:
        """Give the connection up; it cannot be reused in the middle of a body."""
        self._response.close()


class Transport:
    """Raw requests through the library's pool, with its TLS settings and refreshed credentials."""

    def __init__(
        self,
        configuration: t.Any,
        headers: t.Sequence[tuple[str, str]],
        credentials: t.Callable[[str | None], str] = str,
    ) -> None:
        """Build the pool once; the base address is fixed since a token refresh may reset the configuration.

        credentials says of a kind of credentials where they come from.
        """
        self._credential_words = credentials
        configuration.connection_pool_maxsize = max(configuration.connection_pool_maxsize or 1, _POOL_SIZE)
        self.base_url: str = configuration.host
        self._configuration = configuration
        self._headers = headers
        self._pool = kubernetes_client.ApiClient(configuration).rest_client.pool_manager
        # A proxy wants the whole address of each request.
        proxied = isinstance(self._pool, urllib3.ProxyManager)
        self._connections: t.Any = self._pool if proxied else None
        self._prefix = self.base_url if proxied else urllib.parse.urlsplit(self.base_url).path
        self._credentials_lock = threading.Lock()
        self._bearing: Transport | None = None

    def send(
        self, method: str, url: str, headers: t.Mapping[str, str], body: bytes | None, timeout: Timeout
    ) -> tuple[int, t.Mapping[str, str], bytes]:
        """One request, one whole answer; nothing is retried or followed here."""
        response = self._open(method, url, headers, body, timeout, preload=True)
        return response.status, response.headers, response.data

    def stream(self, url: str, headers: t.Mapping[str, str], timeout: Timeout) -> Stream:
        """One GET whose body is read while it comes."""
        return Stream(self._open("GET", url, headers, None, timeout, preload=False))

    def acting_as(self, user: str, groups: t.Sequence[str]) -> Transport:
        """The same pool and credentials, in another user's name; one that impersonates a user already cannot."""
        if self._headers:
            cause = "the connection options impersonate somebody already; leave impersonate_user out"
            raise BadConnection("act as", user, cause)
        other = copy.copy(self)
        other._headers = _impersonation({"impersonate_user": user, "impersonate_groups": groups})
        return other

    def bearing(self, token: str) -> Transport:
        """The same server with somebody's token and nothing of ours: neither certificate nor password nor user.

        Connections have our certificate, by which the server would take the bearer for us; so they are others.
        """
        with self._credentials_lock:
            if self._bearing is None:
                self._bearing = Transport(_without_credentials(self._configuration), (), _token_of_caller)
            shared = self._bearing
        other = copy.copy(shared)
        other._headers = [("Authorization", f"Bearer {token}")]
        return other

    def credentials_in_words(self) -> str:
        """What is sent to prove who we are, and where it comes from."""
        configuration = self._configuration
        kinds = (
            ("token", bool(configuration.api_key)),
            ("client certificate", bool(configuration.cert_file)),
            ("user name and password", bool(configuration.username)),
        )
        return self._credential_words(next((kind for kind, used in kinds if used), None))

    def kubeconfig(self) -> dict[str, t.Any]:
        """The same connection for other programs, with the credentials of now."""
        return build_kubeconfig(self._configuration, (*self._headers, *self._credentials()))

    def close(self) -> None:
        """Close the idle connections of the pool."""
        self._pool.clear()
        if self._bearing is not None:
            self._bearing.close()

    def _open(
        self,
        method: str,
        url: str,
        headers: t.Mapping[str, str],
        body: bytes | None,
        timeout: Timeout,
        preload: bool,
    ) -> t.Any:
        """Send with credentials added; network trouble of any sort becomes a TransportFault."""
        all_headers = HTTPHeaderDict(headers)
        for name, value in (*self._headers, *self._credentials()):
            all_headers.add(name, value)
        try:
            if self._connections is None:
                # All requests go to one server, which need not be looked up each time.
                self._connections = self._pool.connection_from_url(self.base_url)
            return self._connections.request(
                method,
                self._prefix + url,
                body=body,
                headers=all_headers,
                timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
                retries=False,
                redirect=False,
                preload_content=preload,
            )
        except _network_errors() as error:
            raise _fault(error) from error

    def _credentials(self) -> list[tuple[str, str]]:
        """The Authorization header, refreshed by the library when it is about to expire."""
        with self._credentials_lock:
            try:
                bearer = self._configuration.auth_settings().get("BearerToken")
            except _load_errors() as error:
                raise TransportFault(f"the credentials cannot be refreshed: {error}", False) from error
        if bearer and bearer["value"]:
            return [("Authorization", bearer["value"])]
        if self._configuration.username and self._configuration.password:
            return [("Authorization", self._configuration.get_basic_auth_token())]
        return []


def _without_credentials(configuration: t.Any) -> t.Any:
    """The way to the same server, without anything that tells who we are."""
    bare = kubernetes_client.Configuration()
    kept = (
        "host",
        "verify_ssl",
        "ssl_ca_cert",
        "ca_cert_data",
        "proxy",
        "no_proxy",
        "proxy_headers",
        "assert_hostname",
    )
    for attribute in (*kept, "tls_server_name"):
        if hasattr(configuration, attribute):
            setattr(bare, attribute, getattr(configuration, attribute))
    return bare


def _token_of_caller(_kind: str | None) -> str:
    """What is said of credentials that somebody gave us."""
    return "the token of the caller"


def _network_errors() -> tuple[type[BaseException], ...]:
    """Everything the pool raises when no complete answer came."""
    return (urllib3.exceptions.HTTPError, OSError)


def _load_errors() -> tuple[type[BaseException], ...]:
    """Everything the loaders raise over files, texts and exec programs that are not as they should be."""
    return (_loaders.ConfigException, _YAML_ERROR, OSError, ValueError, KeyError, TypeError, AttributeError)


def _load_words(error: BaseException) -> str:
    """What a loader found; where it stumbled over the form, the library's own words do not help."""
    if isinstance(error, (_loaders.ConfigException, _YAML_ERROR, OSError)):
        return str(error) or type(error).__name__
    return f"it is not a kubeconfig ({type(error).__name__}: {error})"


def _fault(error: BaseException) -> TransportFault:
    """Plain words for a network error, and whether trying again makes sense."""
    text = _POOL_ADDRESS.sub("", _OBJECT_ADDRESS.sub("", str(error))).strip() or type(error).__name__
    return TransportFault(text, not _final(error))


def _final(error: BaseException) -> bool:
    """True for what stays as it is: refused certificates, unusable addresses, missing files."""
    if isinstance(error, urllib3.exceptions.SSLError):
        reason = error.args[0] if error.args else None
        return not isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError))
    return isinstance(error, (urllib3.exceptions.LocationValueError, FileNotFoundError))


def resolve_auth(auth: t.Mapping[str, t.Any], environ: t.Mapping[str, str]) -> dict[str, t.Any]:
    """The options in force: what was given, else K8S_AUTH_* of the environment; unset ones are left out."""
    found: dict[str, t.Any] = {}
    for option in (*_ATTRIBUTES, *_NOT_ATTRIBUTES):
        other_name = _ATTRIBUTES.get(option, option)
        value = auth.get(option) if auth.get(option) is not None else auth.get(other_name)
        if value is None:
            text = environ.get(f"K8S_AUTH_{option.upper()}") or environ.get(f"K8S_AUTH_{other_name.upper()}")
            value = _from_environment(option, text) if text is not None else None
        if value is not None:
            found[option] = value
    proxy_headers = auth.get("proxy_headers")
    if proxy_headers is None:
        proxy_headers = {name: environ.get(f"K8S_AUTH_PROXY_HEADERS_{name.upper()}") for name in _PROXY_HEADERS}
    proxy_headers = {name: value for name, value in proxy_headers.items() if value is not None}
    if proxy_headers:
        found["proxy_headers"] = proxy_headers
    return found


def _from_environment(option: str, text: str) -> t.Any:
    """An environment variable's text as the option's type."""
    if option in _BOOLEANS:
        return text.lower() not in ("0", "false", "no")
    if option == "impersonate_groups":
        return [group for group in text.split(",") if group]
    return text


def _load_kubeconfig(configuration: t.Any, options: t.Mapping[str, t.Any], environ: t.Mapping[str, str]) -> None:
    """Fill the configuration from a kubeconfig given as dict, as path, by KUBECONFIG or at the usual place."""
    shared = {
        "context": options.get("context"),
        "persist_config": bool(options.get("persist_config")),
        "client_configuration": configuration,
    }
    kubeconfig = options.get("kubeconfig")
    if isinstance(kubeconfig, t.Mapping):
        # The loader writes refreshed tokens into what it was given.
        _loaders.load_kube_config_from_dict(config_dict=copy.deepcopy(dict(kubeconfig)), **shared)
        return
    problem = missing_file(options, environ)
    if problem is not None:
        raise BadConnection("read", kubeconfig_words(options, environ), problem)
    # The library reads KUBECONFIG once, at import; a task's environment may differ.
    path = kubeconfig or environ.get("KUBECONFIG") or USUAL_KUBECONFIG
    _loaders.load_kube_config(config_file=path, **shared)


def _load_any(configuration: t.Any, options: t.Mapping[str, t.Any], environ: t.Mapping[str, str]) -> None:
    """The precedence of kubernetes.core: complete options, named kubeconfig, service account, usual kubeconfig."""

    def given(*names: str) -> bool:
        """True when every one of these options has a value."""
        return all(options.get(name) for name in names)

    if given("host") and (given("username", "password") or given("api_key") or given("client_cert", "client_key")):
        return
    if given("kubeconfig") or given("context"):
        _load_kubeconfig(configuration, options, environ)
        return
    try:
        _loaders.load_incluster_config(client_configuration=configuration)
    except _loaders.ConfigException:
        try:
            _load_kubeconfig(configuration, options, environ)
        except (_loaders.ConfigException, BadConnection):
            # A host alone is enough for a server, or a proxy before one, that asks for no credentials.
            if not given("host"):
                raise


def build_configuration(auth: t.Mapping[str, t.Any], environ: t.Mapping[str, str]) -> t.Any:
    """The library's configuration for these options; the process-wide default is neither read nor set."""
    options = resolve_auth(auth, environ)
    configuration = kubernetes_client.Configuration()
    try:
        _load_any(configuration, options, environ)
    except _load_errors() as error:
        raise BadConnection("read", kubeconfig_words(options, environ), _load_words(error)) from error
    for option, attribute in _ATTRIBUTES.items():
        if option in options and option != "api_key":
            setattr(configuration, attribute, options[option])
    if "api_key" in options:
        configuration.api_key = {"authorization": f"Bearer {options['api_key']}"}
        configuration.refresh_api_key_hook = None
    configuration.host = configuration.host.rstrip("/")
    if "proxy" not in options and _is_this_machine(configuration.host):
        _drop_proxy_of_environment(configuration)
    if "proxy_headers" in options:
        configuration.proxy_headers = urllib3.util.make_headers(**options["proxy_headers"])
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    _check_files(configuration)
    return configuration


def _is_this_machine(url: str) -> bool:
    """Whether an address can only be this machine's own."""
    name = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _drop_proxy_of_environment(configuration: t.Any) -> None:
    """A proxy that variables name for everything is not meant for this machine; one of the kubeconfig is."""
    if configuration.proxy in urllib.request.getproxies().values():
        configuration.proxy = None


def _check_files(configuration: t.Any) -> None:
    """Name a missing certificate or key now; the connection would only say that some file is missing."""
    for attribute in ("ssl_ca_cert", "cert_file", "key_file"):
        path = getattr(configuration, attribute)
        if path and not os.path.isfile(path):
            raise BadConnection("read", f"the file {path}", f"there is no such file ({attribute} of the connection)")


def _impersonation(options: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """One header for the user and one per group."""
    headers = [("Impersonate-User", options["impersonate_user"])] if options.get("impersonate_user") else []
    groups = options.get("impersonate_groups") or ()
    if len(groups) > 1 and vars(urllib3)["__version__"].startswith("1."):
        # It would join them to one header, and the server would see one group of a strange name.
        raise BadConnection("use", "impersonate_groups", "urllib3 1 cannot send several groups; install urllib3 2")
    return headers + [("Impersonate-Group", group) for group in groups]


def open_transport(auth: t.Mapping[str, t.Any], environ: t.Mapping[str, str] | None = None) -> Transport:
    """A transport for these options; nothing is sent yet."""
    if IMPORT_TRACEBACK is not None:
        raise MissingLibrary("kubernetes", IMPORT_TRACEBACK)
    variables = os.environ if environ is None else environ
    options = resolve_auth(auth, variables)
    try:
        configuration = build_configuration(auth, variables)
        return Transport(
            configuration, _impersonation(options), partial(credential_words, auth, options, dict(variables))
        )
    except (OSError, ValueError) as error:
        raise BadConnection("use", "the connection options", str(error)) from error
