"""The key that signs checkpoints."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from flinkish.checkpoint.signing import Signature, SigningKey
from flinkish.common.errors import ConfigurationError

from .support import KEY, OTHER_KEY


def test_a_signature_is_good_for_these_bytes_and_this_key_only() -> None:
    signature = KEY.sign(b"manifest")
    assert KEY.verify(b"manifest", signature)
    assert not KEY.verify(b"manifesto", signature)
    assert not OTHER_KEY.verify(b"manifest", signature)
    assert not KEY.verify(b"manifest", Signature(signature.key_id, b""))


def test_a_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "new" / "key"
    first = SigningKey.load(str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(first.secret) == 32
    assert SigningKey.load(str(file)) == first
    assert list(file.parent.iterdir()) == [file]


def test_the_default_key_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SigningKey.load().path == tmp_path / ".flinkish" / "checkpoint.key"


def test_two_threads_that_make_the_key_at_once_get_the_same(tmp_path: Path) -> None:
    # both find no file; the second must not replace what the first has made and may have signed with
    both = threading.Barrier(2)
    keys: list[SigningKey] = []

    def random_bytes(count: int) -> bytes:
        both.wait(60)
        return threading.current_thread().name.encode()[:1] * count

    threads = [
        threading.Thread(target=lambda: keys.append(SigningKey.load(str(tmp_path / "key"), random_bytes=random_bytes)), name=name)
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(keys) == 2
    assert keys[0].secret == keys[1].secret


WRONG = [(0o640, 32, "chmod 600"), (0o604, 32, "chmod 600"), (0o666, 32, "chmod 600")]
WRONG += [(0o600, length, f"{length} bytes") for length in (0, 15, 4097)]


@pytest.mark.parametrize(("mode", "length", "text"), WRONG)
def test_a_key_that_others_may_read_or_of_a_wrong_length_is_refused(tmp_path: Path, mode: int, length: int, text: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"k" * length)
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=text):
        SigningKey.load(str(file))


def test_a_key_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir(mode=0o700)
    with pytest.raises(ConfigurationError, match=r"security\.checkpoint\.hmac-key-file"):
        SigningKey.load(str(tmp_path / "key"))


def test_the_secret_is_not_shown() -> None:
    assert "kkkk" not in repr(KEY)
    assert "kkkk" not in KEY.key_id
