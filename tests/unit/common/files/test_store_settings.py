"""The settings of gs:// and abfss://: keys of Flink and Hadoop, one account or all, refusals that show no secret."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flinkish.checkpoint import paths
from flinkish.common.config_file import check_key
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError
from flinkish.common.files import store_settings
from flinkish.common.files.store_settings import storage_options, without_secrets
from flinkish.engine.support import ineffective
from tests.kit.fake_clouds import ACCOUNT_KEY

URI = "abfss://data@mine.dfs.core.windows.net/a"


pytestmark = pytest.mark.usefixtures("no_store_settings")


def use_keys(given: dict[str, str]) -> None:
    store_settings.use(Configuration.from_dict(given))


@pytest.mark.parametrize("ending", ["", ".mine.dfs.core.windows.net", ".mine.blob.core.windows.net"])
def test_a_key_is_for_all_accounts_or_for_one(ending: str) -> None:
    use_keys({f"fs.azure.account.key{ending}": "hush", "fs.azure.account.key.other.dfs.core.windows.net": "else"})
    expected = {"azure_storage_account_name": "mine", "azure_storage_account_key": "hush"}
    assert storage_options(URI) == storage_options("wasbs://data@mine.blob.core.windows.net/b") == expected
    assert storage_options("abfs://data@other.dfs.core.windows.net")["azure_storage_account_key"] == "else"


def test_a_shared_signature_or_a_service_principal_stands_for_the_key() -> None:
    use_keys({"fs.azure.sas.fixed.token": "?sv=1&sig=hush"})
    assert storage_options(URI)["azure_storage_sas_key"] == "sv=1&sig=hush"
    use_keys(
        {
            "fs.azure.account.oauth2.client.id": "me",
            "fs.azure.account.oauth2.client.secret.mine.dfs.core.windows.net": "hush",
            "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant-1/oauth2/token",
        }
    )
    assert storage_options(URI) == {
        "azure_storage_account_name": "mine",
        "azure_storage_client_id": "me",
        "azure_storage_client_secret": "hush",
        "azure_storage_tenant_id": "tenant-1",
        "azure_storage_authority_host": "https://login.microsoftonline.com",
    }
    with pytest.raises(ConfigurationError, match="storage account other without a secret"):
        storage_options("abfss://data@other.dfs.core.windows.net")


def test_another_cloud_has_another_address() -> None:
    assert storage_options("abfss://data@mine.dfs.core.chinacloudapi.cn/a") == {
        "azure_storage_account_name": "mine",
        "azure_storage_endpoint": "https://mine.blob.core.chinacloudapi.cn",
        "azure_allow_http": "false",
    }


def test_a_key_in_the_environment_that_would_win_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "theirs")
    with pytest.raises(ConfigurationError, match=r"fs\.azure\.sas\.fixed\.token is set, and AZURE_STORAGE_ACCOUNT_KEY") as error:
        use_keys({"fs.azure.sas.fixed.token": "hush"})
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("key", ["gs.auth", "fs.gs.auth", "google.cloud.auth"])
def test_the_key_file_of_google_is_checked_at_once(key: str, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    given = {f"{key}.service.account.json.keyfile": str(file)}
    with pytest.raises(ConfigurationError, match=r"key\.json cannot be read: No such file"):
        use_keys(given)
    file.write_text("private_key: hush")
    with pytest.raises(ConfigurationError, match=r"key\.json is not a key in JSON") as error:
        use_keys(given)
    assert "hush" not in str(error.value)
    file.write_text("{}")
    use_keys(given)
    assert storage_options("gs://bucket/a") == {"google_service_account": str(file)}


def test_keys_of_accounts_are_known_and_others_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    key = "fs.azure.account.key.mine.dfs.core.windows.net"
    given = Configuration.from_dict({key: "hush", "fs.azure.account.keyprovider.mine": "x"})
    with caplog.at_level(logging.WARNING):
        check_key(given, key)
    assert caplog.text == ""
    assert [text.split(":")[0] for text in ineffective(given)] == ["fs.azure.account.keyprovider.mine"]
    assert "hush" not in f"{given} {given!r}"


def test_no_secret_is_in_a_printed_form_or_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "ya29.hush")
    use_keys({"fs.azure.account.key": ACCOUNT_KEY, "fs.azure.sas.fixed.token.mine.dfs.core.windows.net": "sv=1&sig=hush"})
    assert "hush" not in repr(store_settings._current)
    assert ACCOUNT_KEY not in repr(store_settings._current)
    said = f"PUT https://mine/data?sv=1&se=2&sig=aGFzaA%3D%3D failed for {ACCOUNT_KEY} and ya29.hush"
    assert without_secrets(said) == "PUT https://mine/data?sv=1&se=2&sig=*** failed for *** and ***"


@pytest.mark.parametrize(
    "text", ["abfss://data/a", "abfss://me:hush@mine.dfs.core.windows.net/a", "gs://a@b/c", "abfss://data@mine/a"]
)
def test_a_place_that_is_none_is_refused_without_what_may_be_a_secret(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected (abfss|gs)://") as error:
        paths.table_root(text, key="execution.checkpointing.dir")
    assert "hush" not in str(error.value)
