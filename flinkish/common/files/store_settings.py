"""Settings and credentials of object stores, which all files of a process share, as in Flink."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.common import options
from flinkish.common.config_options import ConfigOption
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError

#: The options of S3, in the order of the fields of S3Settings.
_OF_S3: tuple[ConfigOption[Any], ...] = (
    *(options.S3_ACCESS_KEY, options.S3_SECRET_KEY, options.S3_SESSION_TOKEN),
    *(options.S3_ENDPOINT, options.S3_REGION, options.S3_PATH_STYLE),
)
_OPTIONS = (*_OF_S3, options.GS_KEY_FILE, *options.OF_ACCOUNTS)
#: Schemes of S3: the first one is used inside, the others are Flink's and Hadoop's names for the same store.
S3_SCHEMES = ("s3", "s3a", "s3p")
#: Schemes of Google Cloud Storage and of Azure's storage accounts; the hosts of wasb:// and wasbs:// have other names.
GS_SCHEMES = ("gs",)
AZURE_SCHEMES = ("abfss", "abfs", "wasbs", "wasb")
#: The scheme that flinkish uses internally, for each scheme of an object store.
OBJECT_STORES = {each: names[0] for names in (S3_SCHEMES, GS_SCHEMES, AZURE_SCHEMES) for each in names}
#: Variables of the environment with a key of a storage account: the client libraries prefer it to other credentials.
_ACCOUNT_KEY_VARIABLES = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
#: Variables of the environment with credentials, which the client libraries read themselves.
_SECRET_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    *_ACCOUNT_KEY_VARIABLES,
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_BEARER_TOKEN",
)
#: `container@account.dfs.core.windows.net`; the host of wasb:// has "blob" for "dfs".
_AZURE_PLACE = re.compile(r"([a-z0-9$][a-z0-9-]*)@([a-z0-9]+)\.(?:dfs|blob)\.([a-z0-9.-]+)")
#: The secret part of a shared access signature in the query of a URL.
_SIGNATURE = re.compile(r"((?:^|[?&])sig=)[^&\s\"'<>)]+")
_TOKEN_ENDPOINT = re.compile(r"(https?://[^/]+)/([^/]+)(?:/.*)?")
_ENDPOINT = re.compile(r"(?:(https?)://)?([A-Za-z0-9.\[\]:_-]+)/?")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings of S3 from the configuration; None = the environment decides. Its printed form has no credentials."""

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


@dataclass(frozen=True, slots=True)
class AzurePlace:
    """A container of a storage account."""

    container: str
    account: str
    #: The cloud's domain, such as core.windows.net.
    domain: str


def azure_place(authority: str) -> AzurePlace | None:
    """Return the place in the authority of an abfss:// URI, the part before the path; None if it is malformed.

    >>> azure_place("data@mine.dfs.core.windows.net")
    AzurePlace(container='data', account='mine', domain='core.windows.net')
    >>> azure_place("data")
    """
    match = _AZURE_PLACE.fullmatch(authority)
    return None if match is None else AzurePlace(*match.groups())


def _azure_options(values: Mapping[str, str], place: AzurePlace) -> dict[str, str]:
    """Return the options for an account, by the names that obstore and delta-rs share; they may hold secrets."""

    def value(option: ConfigOption[Any]) -> str | None:
        """Return the value for the account, or else the one for all accounts."""
        hosts = (f"{place.account}.{kind}.{place.domain}" for kind in ("dfs", "blob"))
        keys = (*(f"{option.key}.{host}" for host in hosts), option.key)
        return next((values[key] for key in keys if key in values), None)

    found = {"azure_storage_account_name": place.account}
    if (key := value(options.AZURE_ACCOUNT_KEY)) is not None:
        found["azure_storage_account_key"] = key
    elif (token := value(options.AZURE_SAS_TOKEN)) is not None:
        found["azure_storage_sas_key"] = token.removeprefix("?")
    elif (client := value(options.AZURE_CLIENT_ID)) is not None:
        secret, issuer = value(options.AZURE_CLIENT_SECRET), _TOKEN_ENDPOINT.fullmatch(value(options.AZURE_CLIENT_ENDPOINT) or "")
        if secret is None or issuer is None:
            raise ConfigurationError(
                f"{options.AZURE_CLIENT_ID.key} is set for the storage account {place.account} without a secret, or without the "
                "address that gives tokens",
                hint=f"set {options.AZURE_CLIENT_SECRET.key}, and {options.AZURE_CLIENT_ENDPOINT.key} as "
                "https://login.microsoftonline.com/<tenant>/oauth2/token.",
            )
        found |= {
            "azure_storage_client_id": client,
            "azure_storage_client_secret": secret,
            "azure_storage_tenant_id": issuer[2],
            "azure_storage_authority_host": issuer[1],
        }
    endpoint = os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT")
    if endpoint is None and place.domain != "core.windows.net":
        endpoint = f"https://{place.account}.blob.{place.domain}"
    if endpoint is not None:
        found |= {"azure_storage_endpoint": endpoint, "azure_allow_http": str(endpoint.startswith("http:")).lower()}
    return found


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The configuration of all object stores. Its printed form has no credentials."""

    s3: S3Settings = S3Settings()
    #: Options of gs://, by the names that obstore and delta-rs share.
    google: Mapping[str, str] = field(default_factory=dict)
    #: Values by the keys of abfss://, some of them for one account.
    azure: Mapping[str, str] = field(default_factory=dict, repr=False)


_lock = threading.Lock()
_current = StoreSettings()
#: Returns whether this process runs jobs, which rely on the settings. The launcher of jobs replaces it.
_in_use: Callable[[], bool] = lambda: False  # noqa: E731


def storage_options(uri: str) -> dict[str, str]:
    """Return the options with which both obstore and deltalake reach an object store; {} for a folder of this machine.

    `uri`: anything in the store, such as the root of a table. The options may hold secrets: never show them. They are those of
    this process at this moment, so ask again for each new client.

    >>> storage_options("/data/flights")
    {}
    """
    scheme, found, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    match OBJECT_STORES.get(scheme) if found else None:
        case "s3":
            return _current.s3.client_options(authority)
        case "gs":
            return dict(_current.google)
        case "abfss":
            place = azure_place(authority)
            return {} if place is None else _azure_options(_current.azure, place)
        case _:
            return {}


def _read(configuration: Configuration) -> StoreSettings:
    return StoreSettings(_read_s3(configuration), _read_google(configuration), _read_azure(configuration))


def _read_s3(configuration: Configuration) -> S3Settings:
    found = S3Settings(*map(configuration.get, _OF_S3))
    if (found.access_key is None) != (found.secret_key is None) or (found.session_token and found.access_key is None):
        raise ConfigurationError(
            f"only a part of the credentials for S3 is set: {_keys(configuration)}",
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


def _read_google(configuration: Configuration) -> dict[str, str]:
    path = configuration.get(options.GS_KEY_FILE)
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            server = json.load(file).get("gcs_base_url", "")
    except (OSError, ValueError, AttributeError) as error:
        why = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else "is not a key in JSON"
        raise ConfigurationError(
            f"{options.GS_KEY_FILE.key}: {path} {why}", hint="the file must be on the driver and on all executors."
        ) from None
    # A server without TLS, such as an emulator.
    return {"google_service_account": path} | ({"allow_http": "true"} if str(server).startswith("http:") else {})


def _read_azure(configuration: Configuration) -> dict[str, str]:
    keys = {option.key for option in options.OF_ACCOUNTS}
    names = [key for key in configuration.key_set() if key in keys or options.is_of_account(key)]
    given = {key: configuration.get_string(key, "") for key in names}
    other = next((key for key in sorted(given) if not key.startswith(options.AZURE_ACCOUNT_KEY.key)), None)
    variable = next((name for name in _ACCOUNT_KEY_VARIABLES if os.environ.get(name)), None)
    if other is not None and variable is not None:
        raise ConfigurationError(
            f"{other} is set, and {variable} in the environment would be used instead of it",
            hint=f"remove that variable, or set {options.AZURE_ACCOUNT_KEY.key}.",
        )
    return given


def _keys(configuration: Configuration) -> str:
    found = [option.key for option in _OPTIONS if configuration.contains(option)]
    return ", ".join([*found, *sorted(filter(options.is_of_account, configuration.key_set()))])


def watch_jobs(in_use: Callable[[], bool]) -> None:
    """Set the function that returns whether jobs run in this process."""
    global _in_use
    _in_use = in_use


def use_to_build(configuration: Configuration) -> None:
    """Apply the settings of a program to this process while the program is built, as sources and sinks open their tables then.

    Nothing changes if the configuration has no such settings, if they are incomplete (more may be added later), or if jobs run.
    The settings are checked when the program starts; see `use`.
    """
    global _current
    try:
        wanted = _read(configuration)
    except ConfigurationError:
        return
    with _lock:
        if wanted != StoreSettings() and not _in_use():
            _current = wanted


def use(configuration: Configuration, *, alone: bool = True) -> None:
    """Apply the settings of a job to this process; `alone` = no other job runs in it.

    Raises ConfigurationError for incomplete or malformed settings, and if running jobs have other settings. A job without
    settings uses those of the running jobs.
    """
    global _current
    wanted = _read(configuration)
    with _lock:
        if not alone:
            if wanted in (StoreSettings(), _current):
                return
            raise ConfigurationError(
                f"another job in this process uses other settings of object stores than this one ({_keys(configuration)})",
                hint="jobs of one process share these settings, as in Flink; run this job in its own process, or with the same.",
            )
        _current = wanted


def secrets() -> set[str]:
    """Return the credentials that this process knows."""
    found = {os.environ.get(name) for name in _SECRET_VARIABLES}
    found |= {_current.s3.access_key, _current.s3.secret_key, _current.s3.session_token}
    found |= {value for key, value in _current.azure.items() if not key.startswith(options.AZURE_CLIENT_ENDPOINT.key)}
    return {secret for secret in found if secret}


def without_secrets(text: str) -> str:
    """Return a text, such as a server's answer, with known credentials replaced by ***."""
    for secret in sorted(secrets(), key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", "***", text)
    return _SIGNATURE.sub(r"\1***", text)
