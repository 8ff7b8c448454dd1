"""The installations of Java and Spark that this process uses, and the jars of Delta Lake that were fetched for them."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from flinkish.common.errors import EngineError
from flinkish.engine.spark import spark_settings

#: Spark 4 runs on 17 and newer.
_OLDEST_JAVA = 17
_JAVA_HINT = (
    f"install Java {_OLDEST_JAVA} or newer (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install "
    "openjdk@17`), or set JAVA_HOME; execution.engine: local needs no Java."
)


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark uses."""

    path: str
    #: The output of `java -version`, or the file `release` of its installation.
    version_text: str


def check_java(environment: Mapping[str, str]) -> Java:
    """Return the Java that Spark will use. Raises EngineError, which names the package to install, if it can use none."""
    home = environment.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if java is None:
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "there is no `java` on the PATH"
        raise EngineError(f"Spark needs Java, but {where}.", hint=_JAVA_HINT)
    text = _release(java) or _ask_version(java)
    version = java_version(text)
    if version is None or version < _OLDEST_JAVA:
        found = "an unknown version" if version is None else f"Java {version}"
        raise EngineError(f"Spark needs Java {_OLDEST_JAVA} or newer, but {java} is {found}.", hint=_JAVA_HINT)
    return Java(path=java, version_text=text)


def _release(java: str) -> str | None:
    """Return the file in which an installation of Java states its version; None if it has none. Asking Java takes 0.1 s."""
    try:
        text = (Path(java).resolve().parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if java_version(text) is None else text


def _ask_version(java: str) -> str:
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"Spark needs Java, but {java} does not run: {error}", hint=_JAVA_HINT) from error
    return output.stderr + output.stdout


def spark_home() -> Path:
    """Return the folder of the Spark that this process uses: SPARK_HOME, else the folder of the pyspark package."""
    return Path(_find_spark_home())


def java_version(output: str) -> int | None:
    """Return the major version in the output of `java -version` or in a file `release`; None if there is none."""
    match = re.search(r'(?:version |JAVA_VERSION=)"(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None


def delta_jars() -> list[Path]:
    """Return Delta's jars from Ivy's cache; empty if they are missing."""
    # Java, and so Ivy, takes the home folder from the user database, not from HOME.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    return spark_settings.cached_delta_jars(home, spark_home() / "jars")
