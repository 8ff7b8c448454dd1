"""The settings of a server, read from the configuration; among them TLS, with PEM files for certificates, also for clients."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from flinkish.common import options
from flinkish.common.config_options import ports_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError

#: The environment variable with the token; it exists so that no command line has to contain the token.
TOKEN_VARIABLE = "FLINKISH_REST_TOKEN"
#: Flink's default of rest.port, for sessions and clients: a job has a server only if its configuration names a port.
DEFAULT_PORT = 8081
#: Characters that a header can contain without quoting or encoding.
_TOKEN = re.compile(r"[!-~]{16,512}")
#: The first bytes of Java's own stores: JKS, JCEKS.
_JAVA_STORES = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
#: A PKCS #12 store is a DER sequence.
_DER = b"\x30"
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificate of a server, and which clients it trusts; all files are PEM."""

    keystore: str
    #: The file of the private key; None = it is in the keystore.
    private_key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    truststore: str | None = None
    #: Whether a client needs a certificate issued by an authority in the truststore.
    authentication: bool = False
    oldest: str = "TLSv1.2"

    def context(self) -> ssl.SSLContext:
        """Read the files; raises ConfigurationError that names the key whose file is missing or not PEM."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self.oldest]
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        self.load(context)
        if self.authentication:
            assert self.truststore is not None
            context.verify_mode = ssl.CERT_REQUIRED
            trust(context, self.truststore)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Add the certificate and its private key to a context; raises the same errors."""
        _check(options.REST_SSL_KEYSTORE.key, self.keystore)
        if self.private_key is not None:
            _check(options.REST_SSL_PRIVATE_KEY.key, self.private_key)
        try:
            # Without a password, OpenSSL would ask for one at the terminal; an empty one makes this an error.
            context.load_cert_chain(self.keystore, self.private_key, password=self.key_password or "")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigurationError(
                f"{options.REST_SSL_KEYSTORE.key}: {self.keystore}: certificate and private key cannot be used: {_reason(error)}",
                hint="the file must contain the certificate and its private key, unless "
                f"{options.REST_SSL_PRIVATE_KEY.key} names the file of the key; "
                f"{options.REST_SSL_KEY_PASSWORD.key} is the password of the key.",
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server; durations are milliseconds."""

    #: The address that the server listens on, and the name under which clients reach it.
    bind_address: str
    address: str
    #: Ports to try, in this order; 0 = any free port.
    ports: tuple[int, ...]
    refresh_interval: int
    cancel_enabled: bool
    expiration: int
    capacity: int
    #: The token that every request needs; None = no token is needed, which is allowed only on a loopback address.
    token: str | None = field(default=None, repr=False)
    #: Whether the server proves that it knows the token (`proof.py`). With a token that a person has chosen, anybody who can
    #: reach the server could use the proofs to try out tokens.
    proves: bool = False
    #: None = plain HTTP.
    tls: Tls | None = None
    #: All settings as text, with secrets hidden.
    shown: tuple[tuple[str, str], ...] = ()

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"


def server_settings(configuration: Configuration, ports: tuple[int, ...] | None = None) -> ServerSettings | None:
    """Return the settings of the server; None if the configuration names no port, so that there is no server.

    `ports` replace the ports of the configuration, for an additional server, such as the one of a Prometheus reporter.

    Raises ConfigurationError for a malformed value, and for an address that other machines can reach without a token.
    """
    ports = ports or _ports(configuration)
    if ports is None:
        return None
    address = configuration.get(options.REST_ADDRESS) or "localhost"
    bind_address = configuration.get(options.REST_BIND_ADDRESS) or "127.0.0.1"
    token = configuration.get(options.REST_TOKEN) or os.environ.get(TOKEN_VARIABLE) or None
    if token is None and not is_loopback(bind_address):
        raise ConfigurationError(
            f"{options.REST_BIND_ADDRESS.key}: {bind_address} can be reached from other machines, which needs a token",
            hint=f"set the environment variable {TOKEN_VARIABLE} to a secret of at least 16 characters, such as "
            f"{secrets.token_hex(16)}, or listen on 127.0.0.1.",
        )
    if token is not None:
        _check_token(token)
    return ServerSettings(
        bind_address=bind_address,
        address=address,
        ports=ports,
        refresh_interval=configuration.get(options.WEB_REFRESH_INTERVAL),
        cancel_enabled=configuration.get(options.WEB_CANCEL_ENABLE),
        expiration=1000 * configuration.get(options.JOB_STORE_EXPIRATION_TIME),
        capacity=configuration.get(options.JOB_STORE_MAX_CAPACITY),
        token=token,
        tls=server_tls(configuration),
        shown=tuple(configuration.shown()),
    )


def _check_token(token: str) -> None:
    if not _TOKEN.fullmatch(token):
        long = "longer than 512 characters, or has some that are not visible ASCII characters"
        why = "shorter than 16 characters" if len(token) < 16 else long
        raise ConfigurationError(f"the token of {options.REST_TOKEN.key} or {TOKEN_VARIABLE} is {why} (it is not shown)")
    if any(token in argument for argument in psutil.Process().cmdline()):
        raise ConfigurationError(
            f"{options.REST_TOKEN.key} is on the command line, which every user of the machine can read (it is not shown)",
            hint=f"choose a new token, and set the environment variable {TOKEN_VARIABLE} or the key in conf/config.yaml.",
        )


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _ports(configuration: Configuration) -> tuple[int, ...] | None:
    """Return the ports of rest.bind-port, else the one of rest.port; None if neither is set."""
    listed = configuration.get(options.REST_BIND_PORT)
    if listed is None:
        port = configuration.get(options.REST_PORT)
        return None if port is None else (port,)
    found: list[int] = []
    for part in listed.split(","):
        ports = ports_of(part.strip())
        if not ports:
            raise ConfigurationError(
                f"{options.REST_BIND_PORT.key}: {listed!r} is not a list of ports",
                hint="such as 8081, 50100-50200 or 50100,50110.",
            )
        found.extend(ports)
    return tuple(found)


def server_tls(configuration: Configuration) -> Tls | None:
    """Return the settings of TLS; None if TLS is off. Raises ConfigurationError if the setting of a required file is missing."""
    if not configuration.get(options.REST_SSL_ENABLED):
        return None
    keystore = configuration.get(options.REST_SSL_KEYSTORE)
    if not keystore:
        raise ConfigurationError(
            f"{options.REST_SSL_ENABLED.key} is true, but {options.REST_SSL_KEYSTORE.key} names no file",
            hint="name a PEM file with the certificate and its private key.",
        )
    truststore = configuration.get(options.REST_SSL_TRUSTSTORE) or None
    authentication = configuration.get(options.REST_SSL_AUTHENTICATION_ENABLED)
    if authentication and truststore is None:
        raise ConfigurationError(
            f"{options.REST_SSL_AUTHENTICATION_ENABLED.key} is true, but {options.REST_SSL_TRUSTSTORE.key} names no file",
            hint="name a PEM file with the certificates of the authorities that issue the clients' certificates.",
        )
    return Tls(
        keystore=keystore,
        private_key=configuration.get(options.REST_SSL_PRIVATE_KEY) or None,
        key_password=configuration.get(options.REST_SSL_KEY_PASSWORD),
        truststore=truststore,
        authentication=authentication,
        oldest=configuration.get(options.SSL_PROTOCOL),
    )


def client_context(configuration: Configuration) -> ssl.SSLContext | None:
    """Return the TLS context of a client; None if TLS is off.

    With `security.ssl.rest.authentication-enabled`, the client presents the certificate of `security.ssl.rest.keystore`, as in
    Flink. Raises ConfigurationError if a file is missing or not PEM.
    """
    if not configuration.get(options.REST_SSL_ENABLED):
        return None
    truststore = configuration.get(options.REST_SSL_TRUSTSTORE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if truststore else ssl.create_default_context()
    context.minimum_version = _VERSIONS[configuration.get(options.SSL_PROTOCOL)]
    if truststore:
        trust(context, truststore)
    if configuration.get(options.REST_SSL_AUTHENTICATION_ENABLED):
        own = server_tls(configuration)
        assert own is not None
        own.load(context)
    return context


def trust(context: ssl.SSLContext, truststore: str) -> None:
    """Trust the authorities of a PEM file; raises ConfigurationError if it cannot be read."""
    _check(options.REST_SSL_TRUSTSTORE.key, truststore)
    try:
        context.load_verify_locations(truststore)
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(
            f"{options.REST_SSL_TRUSTSTORE.key}: {truststore}: no certificates can be read: {_reason(error)}"
        ) from None


def _check(key: str, path: str) -> None:
    """Raise ConfigurationError for a file that is not PEM; the hint shows the command that converts a Java keystore."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{key}: {path} cannot be read: {error.strerror}") from None
    if b"-----BEGIN " in content:
        return
    if content.startswith(_JAVA_STORES):
        raise ConfigurationError(
            f"{key}: {path} is a Java keystore; flinkish reads PEM files",
            hint=f"keytool -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12; then "
            "openssl pkcs12 -in store.p12 -out store.pem -nodes.",
        )
    if content.startswith(_DER):
        raise ConfigurationError(
            f"{key}: {path} is a binary store or certificate (PKCS #12 or DER); flinkish reads PEM files",
            hint=f"openssl pkcs12 -in {path} -out store.pem -nodes.",
        )
    raise ConfigurationError(f"{key}: {path} is not a PEM file: it has no line -----BEGIN ...-----")


def _reason(error: Exception) -> str:
    return (getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)).replace("_", " ").lower()
