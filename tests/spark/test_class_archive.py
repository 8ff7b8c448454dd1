"""The archive of Spark's classes, with a real Java."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from flinkish.engine.processes import ProcessId, boot
from flinkish.engine.spark import class_archive
from flinkish.engine.spark.class_archive import ClassArchive
from flinkish.engine.spark.installation import check_java, spark_home


def test_java_writes_and_reads_the_archive(tmp_path: Path) -> None:
    """A Java program of Spark's, which ends in a moment, with the very options of a session."""
    java = check_java(os.environ).path
    spark = spark_home()
    program = ["-cp", f"{spark}/jars/*", "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version"]
    environment = {name: value for name, value in os.environ.items() if name not in class_archive._JAVA_OPTIONS}
    archive = ClassArchive(tmp_path, "a")

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        options = [option.strip('"') for option in archive.java_options().split()]
        return subprocess.run([java, *options, *more, *program], capture_output=True, text=True, env=environment, check=False)

    run()
    archive.written_by(ProcessId(pid=os.getpid(), created=boot() + 0.001))  # no process began at that time
    shown = run("-Xlog:class+load:stdout").stdout
    assert "org.apache.spark.launcher.Main source: shared objects file (top)" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsa"]
