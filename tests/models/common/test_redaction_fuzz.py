"""Whatever form a text gives a secret, the secret does not survive; whatever a text says without naming one, it stays."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.common.redaction import redact

#: Derandomized: every run has the same examples.
_FUZZ = settings(derandomize=True, deadline=None, max_examples=150)
_CORE = "Zq9planted"
#: A recognizable middle, so that no ordinary text contains it; both ends are what makes it hard to find.
_EDGE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=6)
_VISIBLE = st.text("abcXYZ0189!#$%*+-./:<=>?@^_|~(){}[]\\\"'`", max_size=6)
_PLAIN = st.text("abcXYZ0189!$%*+-./:=?@^_|~(", max_size=6)
_NAMES = st.sampled_from(
    [
        *("password", "db.password", "PASSWORD", "client_secret", "apiToken", "ssl.key.passphrase", "pwd", "Pwd", "AccountKey"),
        *("fs.azure.sas.container.account", "fs.s3a.secret.key", "aws_secret_access_key", "SharedAccessKey", "sig", "db.pass"),
        *("spark.hadoop.fs.azure.account.key.a.blob.core.windows.net", "x-api-key", "credentials", "private_key", "service-key"),
    ]
)


#: Forms in which the secret is enclosed, so that it may have any characters.
_ENCLOSED: dict[str, Callable[[str, str], str]] = {
    "JSON": lambda name, secret: json.dumps({"a": 1, name: secret, "z": "shown"}),
    "compact JSON": lambda name, secret: json.dumps({name: secret, "z": "shown"}, separators=(",", ":")),
    "indented JSON": lambda name, secret: json.dumps({"x": {name: secret}, "z": "shown"}, indent=2),
    "JSON in JSON": lambda name, secret: json.dumps({"body": json.dumps({name: secret}), "z": "shown"}),
    "JSON in JSON in JSON": lambda name, secret: json.dumps([json.dumps({"body": json.dumps({name: secret})}), "shown"]),
    "repr": lambda name, secret: repr({"a": 1, name: secret, "z": "shown"}),
    "repr of bytes": lambda name, secret: repr({name.encode(): secret.encode(), b"z": b"shown"}),
    "repr of pairs": lambda name, secret: repr([("z", "shown"), (name, secret)]),
    "repr of a list": lambda name, secret: repr({name: [secret], "z": "shown"}),
    "call": lambda name, secret: f"connect({name.replace('.', '_').replace('-', '_')}={secret!r}, z='shown')",
    "quoted YAML": lambda name, secret: f"{name}: {json.dumps(secret)}\nz: shown",
    "blanks around the equals sign": lambda name, secret: f"z = shown\n{name}  =  {json.dumps(secret)}",
    "SQL": lambda name, secret: "z='shown', {} = '{}'".format(name, secret.replace("\\", "").replace("'", "''")),
    "command line": lambda name, secret: f"run --z=shown --{name.replace('.', '-')} {_shell(secret)} job.py",
    "-D": lambda name, secret: f"run -D{name}={_shell(secret)} job.py shown",
    "list of arguments": lambda name, secret: repr(["run", f"--{name}", secret, "shown"]),
    "JSON list of arguments": lambda name, secret: json.dumps(["run", f"--{name}", secret, "shown"]),
}


def _shell(text: str) -> str:
    """Quote a text as a person does: shlex quotes a quotation mark in a way of its own."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.mark.parametrize("form", _ENCLOSED)
def test_an_enclosed_secret_does_not_survive_whatever_characters_it_has(form: str) -> None:
    @_FUZZ
    @given(_NAMES, _EDGE | _VISIBLE, _EDGE | _VISIBLE)
    def check(name: str, before: str, after: str) -> None:
        text = _ENCLOSED[form](name, f"{before}{_CORE}{after}")
        assert _CORE not in redact(text), text
        assert redact(redact(text)) == redact(text)
        assert "shown" in redact(text)

    check()


#: Forms in which the end of the secret is not marked by anything but what follows it.
_OPEN: dict[str, Callable[[str, str], str]] = {
    "properties": lambda name, secret: f"z=shown\n{name}={secret}\ny=2",
    "properties with blanks": lambda name, secret: f"z = shown\n{name} = {secret}",
    "spark-defaults.conf": lambda name, secret: f"spark.z shown\nspark.{name}   {secret}\n",
    "YAML": lambda name, secret: f"z: shown\n  {name}: {secret}",
    "message": lambda name, secret: f"shown: cannot log in with {name}={secret}, retries=3",
    "connection string": lambda name, secret: f"Server=shown;Uid=me;{name}={secret};Encrypt=yes",
    "query": lambda name, secret: f"GET /shown?a=b&{name}={secret}&c=d",
    "command line": lambda name, secret: f"run --{name} {secret} shown",
    "command line with an equals sign": lambda name, secret: f"run --{name}={secret} shown",
}


@pytest.mark.parametrize("form", _OPEN)
def test_a_secret_without_quotation_marks_does_not_survive(form: str) -> None:
    @_FUZZ
    @given(_NAMES, _PLAIN, _PLAIN)
    def check(name: str, before: str, after: str) -> None:
        text = _OPEN[form](name, f"x{before}{_CORE}{after}x")
        assert _CORE not in redact(text), text
        assert "shown" in redact(text)

    check()


@_FUZZ
@given(st.text("abcXYZ0189!$%*+-./:=@^_|~(?#&;,", max_size=6), st.text("abcXYZ0189!$%*+-./:=@^_|~(?#&;,", max_size=6))
def test_a_password_in_a_url_does_not_survive(before: str, after: str) -> None:
    for text in (
        f"cannot reach postgresql://me:x{before}{_CORE}{after}@shown:5432/db",
        f"jdbc:postgresql://me:x{before}{_CORE}{after}@shown/db?a=b, then http://other/a@b",
        f"['amqp://:x{before}{_CORE}{after}@shown']",
        f"https://x{quote(before, safe='')}{_CORE}{quote(after, safe='')}@shown/",
    ):
        if "://" not in before + after:
            assert _CORE not in redact(text), text
            assert "shown" in redact(text)


@_FUZZ
@given(_NAMES, _EDGE | _VISIBLE)
def test_an_encoded_query_and_yaml_of_a_library_do_not_show_a_secret(name: str, edge: str) -> None:
    secret = f"{edge}{_CORE}{edge}"
    assert _CORE not in redact(f"https://h/p?{urlencode({'a': 'b', name: secret, 'c': 'd'})}")
    assert _CORE not in redact(yaml.safe_dump({"a": 1, name: secret}, width=10_000, allow_unicode=True))
    assert _CORE not in redact(shlex.join(["run", f"--{name}", f"x {_CORE} y", "job.py"]))


@pytest.mark.parametrize(
    "text",
    [
        "a token bucket limits the rate; the password is wrong",
        "password authentication failed for user me",
        "the option s3.secret-key is not set, and neither is security.rest.token",
        "columns ['id', 'password', 'email'] of ('id', 'password', 'email')",
        "http://localhost:8081/jobs/a@b and http://host:80, then kafka://a:9092,b:9092 for me@example.org",
        "cannot connect to host:5432: timeout=3, retries = 5, key=5, compass=3, monkey: 4, significant=1, 12:30:00",
        "--tokenless --verbose run job.py",
        "run --password --verbose job.py",
        "at org.apache.Foo(Foo.java:12)\n\tat Bar.baz(Unknown Source)\nCaused by: java.io.IOException: no space",
        "{'credentials': {'user': 'me'}, 'n': 1}",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('password="correct horse, battery; staple" user=me', 'password="******" user=me'),
        ("password = hunter2, user = me", "password = ******, user = me"),
        ("password: correct horse battery", "password: ******"),
        ("postgresql://me:hu/sh@db:5432/x", "postgresql://******@db:5432/x"),
        ("run --password hunter2 job.py", "run --password ****** job.py"),
        ("AccountName=me;AccountKey=ab+/c==;EndpointSuffix=x", "AccountName=me;AccountKey=******;EndpointSuffix=x"),
        (
            "https://a.blob.core.windows.net/c?sv=2022&sig=ab%2Fc%3D&se=1",
            "https://a.blob.core.windows.net/c?sv=2022&sig=******&se=1",
        ),
        ("fs.azure.sas.c.a.blob.core.windows.net=sv=2&x", "fs.azure.sas.c.a.blob.core.windows.net=******&x"),
        ("keytool -storepass hunter2 -alias a", "keytool -storepass ****** -alias a"),
        ("<user>me</user><password>hunter2</password>", "<user>me</user><password>******</password>"),
        ("(user=me, password=hunter2)", "(user=me, password=******)"),
        (
            "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nshown",
            "-----BEGIN PRIVATE KEY-----******-----END PRIVATE KEY-----\nshown",
        ),
    ],
)
def test_only_the_secret_is_hidden(text: str, expected: str) -> None:
    assert redact(text) == expected
