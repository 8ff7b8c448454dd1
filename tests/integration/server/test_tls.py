"""HTTPS: certificates as PEM files by Flink's keys; clients with a certificate of their own; what is not PEM."""

from __future__ import annotations

import http.client
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.cli.client import RestClient, find_address
from flinkish.common import Configuration
from flinkish.common.errors import ConfigurationError, ServerError
from flinkish.server.endpoint import Endpoint
from flinkish.server.server_settings import Tls, client_context, server_settings
from tests.unit.server.support import served

PASSWORD = "not-a-good-password"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and certificates that it vouches for, for a server and a client: `both.pem` has certificate and key."""
    made = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=made, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    openssl("req", "-x509", *new, "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
    (made / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl("req", *new, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", *signed, "-out", f"{name}.crt")
        (made / f"{name}.pem").write_bytes((made / f"{name}.crt").read_bytes() + (made / f"{name}.key").read_bytes())
    openssl("ec", "-in", "server.key", "-aes128", "-passout", f"pass:{PASSWORD}", "-out", "locked.key")
    return made


def status(port: int, context: ssl.SSLContext) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    try:
        connection.request("GET", "/overview")
        return connection.getresponse().status
    finally:
        connection.close()


def keys(folder: Path, **changes: str) -> Configuration:
    values = {"enabled": "true", "keystore": str(folder / "server.pem"), "truststore": str(folder / "ca.pem"), **changes}
    found = {f"security.ssl.rest.{key.replace('_', '-')}": value for key, value in values.items()}
    return Configuration.from_dict({"rest.port": "0", **found})


def tls(configuration: Configuration) -> Tls:
    settings = server_settings(configuration)
    assert settings is not None
    assert settings.scheme == "https"
    assert settings.tls is not None
    return settings.tls


def test_a_server_with_a_certificate_speaks_tls_1_2_at_least_and_no_plain_http(folder: Path) -> None:
    configuration = keys(folder)
    with served(tls=tls(configuration)) as server:
        trusting = client_context(configuration)
        assert trusting is not None
        assert status(server.port, trusting) == 200
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(folder / "ca.pem")
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            status(server.port, old)
        with pytest.raises(ssl.SSLCertVerificationError):
            status(server.port, ssl.create_default_context())
        with pytest.raises((http.client.HTTPException, OSError)):
            server.ask("GET", "/overview")


def test_the_command_line_speaks_tls_where_the_configuration_says_so(folder: Path) -> None:
    configuration = keys(folder)
    with served(tls=tls(configuration)) as server:
        address = find_address(f"127.0.0.1:{server.port}", configuration, {})
        assert address.url == f"https://127.0.0.1:{server.port}"
        assert RestClient(address).get("/overview")["jobs-running"] == 0
        with pytest.raises(ServerError, match="CERTIFICATE_VERIFY_FAILED"):
            RestClient(replace(address, tls=None)).get("/overview")


def test_the_oldest_version_can_be_raised(folder: Path) -> None:
    configuration = keys(folder).set_string("security.ssl.protocol", "TLSv1.3")
    with served(tls=tls(configuration)) as server:
        older = client_context(keys(folder))
        assert older is not None
        assert status(server.port, older) == 200
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            status(server.port, older)


def test_a_key_may_be_in_a_file_of_its_own_with_a_password(folder: Path) -> None:
    apart = {"keystore": str(folder / "server.crt"), "private_key": str(folder / "locked.key")}
    tls(keys(folder, **apart, key_password=PASSWORD)).context()
    with pytest.raises(ConfigurationError, match="cannot be used") as caught:
        tls(keys(folder, **apart, key_password="wrong-password")).context()
    assert "wrong-password" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"security\.ssl\.rest\.private-key"):
        tls(keys(folder, keystore=str(folder / "server.crt"))).context()
    assert PASSWORD not in repr(tls(keys(folder, key_password=PASSWORD)))


def test_clients_need_a_certificate_where_that_is_asked(folder: Path) -> None:
    asking = keys(folder, authentication_enabled="true")
    with served(tls=tls(asking)) as server:
        own = client_context(keys(folder, authentication_enabled="true", keystore=str(folder / "client.pem")))
        assert own is not None
        assert status(server.port, own) == 200
        without = client_context(keys(folder))
        assert without is not None
        with pytest.raises((ssl.SSLError, http.client.HTTPException, OSError)):
            status(server.port, without)


def test_a_client_of_a_server_without_tls_has_no_context() -> None:
    assert client_context(Configuration()) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xfe\xed\xfe\xed\x00\x00\x00\x02", "is a Java keystore; flinkish reads PEM files"),
        (b"\xce\xce\xce\xce\x00\x00\x00\x02", "is a Java keystore"),
        (b"\x30\x82\x01\x02", "PKCS #12 or DER"),
        (b"hello", "is not a PEM file"),
        (None, "cannot be read: No such file"),
        (b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", "cannot be used"),
    ],
)
def test_what_is_not_pem_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    store = tmp_path / "store"
    if content is not None:
        store.write_bytes(content)
    settings = server_settings(keys(tmp_path, keystore=str(store)))
    assert settings is not None
    with pytest.raises(ConfigurationError, match=message) as caught:
        Endpoint(settings)
    assert "security.ssl.rest.keystore" in str(caught.value)


def test_a_truststore_that_is_not_pem_is_named(folder: Path) -> None:
    (folder / "java.jks").write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigurationError, match=r"security\.ssl\.rest\.truststore: .*Java keystore"):
        client_context(keys(folder, truststore=str(folder / "java.jks")))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ({"security.ssl.rest.enabled": "true"}, r"security\.ssl\.rest\.keystore names no file"),
        (
            {
                "security.ssl.rest.enabled": "true",
                "security.ssl.rest.keystore": "x.pem",
                "security.ssl.rest.authentication-enabled": "true",
            },
            r"security\.ssl\.rest\.truststore names no file",
        ),
    ],
)
def test_a_file_that_is_needed_is_named(missing: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        server_settings(Configuration.from_dict({"rest.port": "0", **missing}))


def test_without_tls_the_scheme_is_http() -> None:
    settings = server_settings(Configuration.from_dict({"rest.port": "0"}))
    assert settings is not None
    assert (settings.scheme, replace(settings, tls=Tls(keystore="x")).scheme) == ("http", "https")
