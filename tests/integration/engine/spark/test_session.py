"""The version of Java is checked before Spark starts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from flinkish.common.errors import EngineError
from flinkish.engine.spark.installation import check_java


def test_an_old_java_is_refused_with_its_version(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(EngineError, match=r"Java 17 or newer, but .* is Java 11"):
        check_java({"PATH": str(tmp_path)})


def test_the_version_is_read_from_the_installation_of_java_without_a_call(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.2\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "java").symlink_to(java)
    assert check_java({"PATH": str(tmp_path)}).version_text == 'openjdk version "17.0.2"\n'
    release = tmp_path / "jdk" / "release"
    release.write_text("no version\n")
    assert check_java({"PATH": str(tmp_path)}).version_text == 'openjdk version "17.0.2"\n'
    release.write_text('JAVA_VERSION="21.0.1"\n')
    assert check_java({"PATH": str(tmp_path)}).version_text == 'JAVA_VERSION="21.0.1"\n'
    release.write_text('JAVA_VERSION="11.0.1"\n')
    with pytest.raises(EngineError, match=r"Java 17 or newer, but .* is Java 11"):
        check_java({"PATH": str(tmp_path)})
