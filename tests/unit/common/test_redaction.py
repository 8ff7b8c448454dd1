"""Secrets are hidden in texts: those that the process knows, and what a text itself calls a secret."""

from __future__ import annotations

import io
import logging
import time

import pytest

from flinkish.common import Configuration
from flinkish.common.config_options import is_sensitive
from flinkish.common.files.schemes import OBJECT_NAMES
from flinkish.common.redaction import RedactingFormatter, protect_log, redact, remember


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter2", "password=******"),
        ("db.password: hunter2, retries: 3", "db.password: ******, retries: 3"),
        ("{'password': 'hunter2', 'user': 'me'}", "{'password': '******', 'user': 'me'}"),
        ('{"apiToken":"hunter2","n":1}', '{"apiToken":"******","n":1}'),
        ("AWS_SECRET_ACCESS_KEY=abc/def+ghi=", "AWS_SECRET_ACCESS_KEY=******"),
        ("a=1;password=hunter2;b=2", "a=1;password=******;b=2"),
        ("password:x,secret:y,name:z", "password:******,secret:******,name:z"),
        ("pipeline: password=a&token=b&page=2", "pipeline: password=******&token=******&page=2"),
        ("postgresql://me:hush@db:5432/x", "postgresql://******@db:5432/x"),
        ("https://ghp_token@host/x and http://host/a@b", "https://******@host/x and http://host/a@b"),
        ("Authorization: Bearer abcdef.ghijkl-mn", "Authorization: Bearer ******"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic ******"),
        ("KeyError: 'a', key=5, token ring", "KeyError: 'a', key=5, token ring"),
        ("", ""),
    ],
)
def test_what_a_text_calls_a_secret_is_hidden(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert redact(redact(text)) == expected


def test_known_secrets_are_hidden_wherever_they_stand() -> None:
    remember({"s3.secret-key": "Zq9-known-one", "s3.endpoint": "http://store.example", "x.password": "Zq9-known"})
    remember({"MY_DB_PASSWORD": "Zq9(other)", "HOME": "/home/someone", "y.token": "short"})

    text = "Zq9-known-one and Zq9-known, then Zq9(other); short at /home/someone of http://store.example"

    assert redact(text) == "****** and ******, then ******; short at /home/someone of http://store.example"


def test_the_working_folder_of_the_environment_is_no_secret() -> None:
    remember({"PWD": "/home/someone/at-work", "OLDPWD": "/home/someone/before", "DB_PWD": "Zq9-of-a-base"})
    assert redact("in /home/someone/at-work and /home/someone/before: Zq9-of-a-base") == (
        "in /home/someone/at-work and /home/someone/before: ******"
    )


def test_the_lines_of_a_program_in_a_traceback_stay_readable() -> None:
    remember({"a.password": "Zq9-literal"})
    traceback = (
        'Traceback:\n  File "job.py", line 3\n    connect(password=settings, token="hush", x="Zq9-literal")\n'
        "ValueError: bad password=hunter2"
    )
    assert redact(traceback) == (
        'Traceback:\n  File "job.py", line 3\n    connect(password=settings, token="******", x="******")\n'
        "ValueError: bad password=******"
    )


@pytest.mark.parametrize("text", ["secret" * 200_000, "password=" * 50_000, "a:" * 50_000, "://" * 50_000, "x" * 1_000_000 + "="])
def test_a_long_text_takes_no_longer_than_its_length(text: str) -> None:
    begun = time.thread_time()  # whatever else the machine does
    redact(text)
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize(
    "key",
    [
        *("db.password", "passwd", "aws.credentials", "client_secret", "api_token", "api_key", "APIKEY", "encryption.key", "key"),
        *("privateKey", "private-key-file", "account_keys", "AWS_SECRET_ACCESS_KEY", "FLINKISH_REST_TOKEN"),
    ],
)
def test_keys_of_secrets(key: str) -> None:
    assert is_sensitive(key)


@pytest.mark.parametrize("key", ["security.checkpoint.hmac-key-file", "key.fields", "monkey", "keyed", "tokyo", "rest.port"])
def test_keys_of_what_is_no_secret(key: str) -> None:
    assert not is_sensitive(key)


def test_secrets_inside_a_value_are_hidden_where_a_configuration_is_shown() -> None:
    parameters = "db.password:hush-hush,signing.key:hush-hush,name:shown"
    configuration = Configuration.from_dict({"pipeline.global-job-parameters": parameters, "a.url": "jdbc:x://me:hush-hush@db/"})
    for text in (str(configuration), repr(configuration), str(configuration.shown())):
        assert "hush-hush" not in text
        assert "name:shown" in text
    assert configuration.get_string("pipeline.global-job-parameters", "") == parameters


def test_lines_of_the_log_and_their_tracebacks_are_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    protect_log()
    protect_log()
    assert isinstance(handler.formatter, RedactingFormatter)
    try:
        raise ValueError("token=" + "abcd" * 2)
    except ValueError:
        logging.getLogger("flinkish.test").exception("at %s", "ftp://me:hush@host/")

    text = stream.getvalue()
    assert text.startswith("ERROR at ftp://******@host/\nTraceback")
    assert "ValueError: token=******" in text
    assert "abcdefgh" not in text


def test_a_hint_about_credentials_is_shown_in_full() -> None:
    assert redact(OBJECT_NAMES) == OBJECT_NAMES
