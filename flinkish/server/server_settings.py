"""The settings of a server, read from the configuration."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from dataclasses import dataclass, field

import psutil

from flinkish.common import options
from flinkish.common.config_options import ports_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError
from flinkish.server.tls import Tls, server_tls

#: The environment variable with the token; it exists so that no command line has to contain the token.
TOKEN_VARIABLE = "FLINKISH_REST_TOKEN"
#: Characters that a header can contain without quoting or encoding.
_TOKEN = re.compile(r"[!-~]{16,512}")
_LOOPBACK_NAMES = ("localhost",)


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
        return address in _LOOPBACK_NAMES


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
