"""Settings and credentials of object stores, which all files of a process share, as in Flink."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flinkish.common import options
from flinkish.common.config_options import ConfigOption
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError

_OPTIONS: tuple[ConfigOption[Any], ...] = (
    options.S3_ACCESS_KEY,
    options.S3_SECRET_KEY,
    options.S3_SESSION_TOKEN,
    options.S3_ENDPOINT,
    options.S3_REGION,
    options.S3_PATH_STYLE,
)
#: Schemes of S3: the first one is used inside, the others are Flink's and Hadoop's names for the same store.
S3_SCHEMES = ("s3", "s3a", "s3p")
#: Variables of the environment with credentials, which the client libraries read themselves.
_SECRET_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_ENDPOINT = re.compile(r"(?:(https?)://)?([A-Za-z0-9.\[\]:_-]+)/?")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """What the configuration says about S3; None = as the environment says. Credentials are not part of its printed form."""

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    region: str | None = None
    #: False puts the bucket into the host name; None and True put it into the path, which all servers but a few understand.
    path_style: bool | None = None

    def client_options(self, bucket: str) -> dict[str, str]:
        """Return the options for a bucket, by the names that obstore and delta-rs share; they may hold secrets."""
        # A file is created only if it is absent, by If-None-Match: without this, delta-rs refuses to commit to S3.
        found = {"aws_conditional_put": "etag"}
        if self.access_key is not None and self.secret_key is not None:
            found |= {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
            if self.session_token is not None:
                found["aws_session_token"] = self.session_token
        if self.region is not None:
            found["aws_region"] = self.region
        endpoint = self.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if self.path_style is False:
            found["aws_virtual_hosted_style_request"] = "true"
        if endpoint is not None:
            scheme, host = _parts(endpoint)
            found["aws_endpoint"] = f"{scheme}://{bucket}.{host}" if self.path_style is False else f"{scheme}://{host}"
            found["aws_allow_http"] = str(scheme == "http").lower()
            # Servers other than Amazon's have no regions, but a signature needs one.
            if not (self.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
                found["aws_region"] = "us-east-1"
        return found


def _parts(endpoint: str) -> tuple[str, str]:
    match = _ENDPOINT.fullmatch(endpoint.strip())
    if match is None:
        raise ConfigurationError(
            f"{options.S3_ENDPOINT.key} is not the address of a server (it is not shown, as it may hold a password)",
            hint="such as https://s3.eu-central-1.amazonaws.com or http://minio:9000.",
        )
    return match[1] or "https", match[2]


_lock = threading.Lock()
_current = S3Settings()
#: Whether jobs run in this process, which rely on the settings. The launcher of jobs replaces it.
_in_use: Callable[[], bool] = lambda: False  # noqa: E731


def s3_settings() -> S3Settings:
    """Return the settings of this process."""
    return _current


def storage_options(uri: str) -> dict[str, str]:
    """Return the options with which both obstore and deltalake reach an object store; {} for a folder of this machine.

    `uri`: anything in the store, such as the root of a table. The options may hold secrets: never show them. They are those of
    this process at this moment, so ask again for each new client.

    >>> storage_options("/data/flights")
    {}
    """
    scheme, found, rest = uri.partition("://")
    if found and scheme in S3_SCHEMES:
        return s3_settings().client_options(rest.partition("/")[0])
    return {}


def _read(configuration: Configuration) -> S3Settings:
    found = S3Settings(
        access_key=configuration.get(options.S3_ACCESS_KEY),
        secret_key=configuration.get(options.S3_SECRET_KEY),
        session_token=configuration.get(options.S3_SESSION_TOKEN),
        endpoint=configuration.get(options.S3_ENDPOINT),
        region=configuration.get(options.S3_REGION),
        path_style=configuration.get(options.S3_PATH_STYLE),
    )
    if (found.access_key is None) != (found.secret_key is None) or (found.session_token and found.access_key is None):
        raise ConfigurationError(
            f"of the credentials for S3 only a part is set: {_keys(configuration)}",
            hint=f"set both {options.S3_ACCESS_KEY.key} and {options.S3_SECRET_KEY.key}, and "
            f"{options.S3_SESSION_TOKEN.key} if they are temporary.",
        )
    if found.access_key is not None and found.session_token is None and os.environ.get("AWS_SESSION_TOKEN"):
        raise ConfigurationError(
            f"{options.S3_ACCESS_KEY.key} is set, and AWS_SESSION_TOKEN in the environment belongs to other credentials",
            hint=f"remove that variable, or set {options.S3_SESSION_TOKEN.key}.",
        )
    if found.endpoint is not None:
        _parts(found.endpoint)
    return found


def _keys(configuration: Configuration) -> str:
    return ", ".join(option.key for option in _OPTIONS if configuration.contains(option))


def watch_jobs(in_use: Callable[[], bool]) -> None:
    """Set the function that returns whether jobs run in this process."""
    global _in_use
    _in_use = in_use


def use_to_build(configuration: Configuration) -> None:
    """Make the settings of a program those of this process while it is built, as sources and sinks look at their tables then.

    Nothing changes if the configuration has no such settings, if they are incomplete (more may be added later), and if jobs run.
    They are checked when the program starts; see `use`.
    """
    global _current
    try:
        wanted = _read(configuration)
    except ConfigurationError:
        return
    with _lock:
        if wanted != S3Settings() and not _in_use():
            _current = wanted


def use(configuration: Configuration, *, alone: bool = True) -> None:
    """Make the settings of a job those of this process; `alone` = no other job runs in it.

    Raises ConfigurationError for incomplete or malformed settings, and if other jobs run with different ones. A job without
    settings takes over those of jobs that run.
    """
    global _current
    wanted = _read(configuration)
    with _lock:
        if not alone:
            if wanted in (S3Settings(), _current):
                return
            raise ConfigurationError(
                f"another job in this process uses other settings of S3 than this one ({_keys(configuration)})",
                hint="jobs of one process share them, as in Flink; run this job in a process of its own, or give it the same.",
            )
        _current = wanted


def secrets() -> set[str]:
    """Return the credentials that this process knows."""
    found = {os.environ.get(name) for name in _SECRET_VARIABLES}
    found |= {_current.access_key, _current.secret_key, _current.session_token}
    return {secret for secret in found if secret}


def without_secrets(text: str) -> str:
    """Return a text, such as an answer of a server, in which known credentials are replaced by ***."""
    for secret in sorted(secrets(), key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", "***", text)
    return text
