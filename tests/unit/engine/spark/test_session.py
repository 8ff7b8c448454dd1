"""What is refused before Spark starts."""

from __future__ import annotations

import logging
import os
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId
from flinkish.engine.scratch import make_folder
from flinkish.engine.spark import package, scratch, session, session_start
from flinkish.engine.spark.engine import SparkEngine
from flinkish.engine.spark.installation import check_java, java_version
from flinkish.engine.spark.log_suppression import silence_py4j
from flinkish.engine.spark.session import refuse_connect


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('IMPLEMENTOR="Debian"\nJAVA_RUNTIME_VERSION="21.0.1+6"\nJAVA_VERSION="21.0.1"\n', 21),
        ("no java here", None),
    ],
)
def test_the_version_of_java_is_read(output: str, version: int | None) -> None:
    assert java_version(output) == version


def test_missing_java_names_the_package_to_install(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"(?s)no `java` on the PATH.*apt-get install openjdk-17-jre-headless"):
        check_java({"PATH": str(tmp_path)})


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"JAVA_HOME is {tmp_path}"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


@pytest.mark.parametrize("environment", [{"SPARK_REMOTE": "sc://x"}, {"SPARK_API_MODE": "connect"}])
def test_spark_connect_is_refused_by_name(environment: dict[str, str]) -> None:
    with pytest.raises(EngineError, match="Spark Connect"):
        refuse_connect(environment)


def test_classic_spark_is_accepted() -> None:
    refuse_connect({"SPARK_API_MODE": "classic"})


def test_scratch_goes_where_it_was_set_to_then_to_memory_with_room_then_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, memory, temporary = tmp_path / "given", tmp_path / "memory", tmp_path / "temporary"
    memory.mkdir()
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", memory)
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(temporary))
    for chosen, free, expected in [(given, 1 << 40, given), (None, 1 << 40, memory), (None, 64 << 20, temporary)]:
        monkeypatch.setattr(scratch.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        assert scratch.make_scratch_folder(chosen).parent == expected
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", tmp_path / "nowhere")
    assert scratch.make_scratch_folder(None).parent == temporary


def test_sockets_beside_a_long_temporary_folder_are_removed_by_the_next_driver_if_one_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = tmp_path / "s", tmp_path / ("l" * 80)
    short.mkdir()
    long.mkdir()
    alive = make_folder(short, "flinkish")
    _, user, _, *rest = alive.name.split("-")
    killed = short / "-".join(["flinkish", user, str(2**30), *rest])
    killed.mkdir()
    monkeypatch.setattr(scratch, "_SHORT", short)
    monkeypatch.setattr(scratch, "make_scratch_folder", lambda _: long)

    made = scratch.socket_folder.__wrapped__()

    assert (made.parent, long.exists(), killed.exists(), alive.exists()) == (short, False, False, True)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (
            "http://host:4040",
            ["Spark's page: http://host:4040 (its input and process rates count rows inside flinkish, not your records)"],
        ),
        (None, []),
    ],
)
def test_a_person_learns_that_spark_is_started_and_where_its_page_is(
    page: str | None, told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    contexts: list[Any] = []

    def make(settings: object) -> Any:
        contexts.append(SimpleNamespace(uiWebUrl=page, _conf=SimpleNamespace(get=lambda key, default: default)))
        return SimpleNamespace(sparkContext=contexts[-1])

    process = ProcessId.of(os.getpid())
    changes = {
        "_made": None,
        "_holders": 0,
        "_running_context": lambda: contexts[-1] if contexts else None,
        "make_session": make,
        "jvm_of": lambda context: process,
        "_process": lambda: None,
        "silence_py4j": lambda: None,
    }
    for name, value in changes.items():
        monkeypatch.setattr(session, name, value)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    caplog.set_level(logging.INFO, "flinkish.job")
    for _ in range(2):
        SparkEngine()._session()
    assert [record.getMessage() for record in caplog.records] == ["Starting Spark ...", *told, *told]


@pytest.mark.parametrize(
    ("master", "variable", "setting", "taken"),
    [
        ("local[2]", None, None, True),
        ("local-cluster[2,1,1024]", None, None, True),
        ("local[2]", "/opt/python", None, False),
        ("local[2]", None, "/opt/python", False),
        ("spark://host:7077", None, None, False),
    ],
)
def test_workers_of_the_program_s_session_run_the_driver_s_python_unless_one_was_chosen(
    master: str, variable: str | None, setting: str | None, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    conf = {} if setting is None else {"spark.pyspark.python": setting}
    context = SimpleNamespace(master=master, pythonExec="python3", _conf=conf)
    with session.workers_like_driver(context):
        assert context.pythonExec == (sys.executable if taken else "python3")
    assert context.pythonExec == "python3"


class _Context:
    """Stands for Spark's context: notes what is sent to executors."""

    def __init__(self) -> None:
        self.pythonExec = "python3"
        self.sent: list[Path] = []

    def addPyFile(self, path: str) -> None:
        self.sent.append(Path(path))


def test_a_session_of_ours_sends_flinkish_to_other_machines_and_keeps_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_start, "socket_folder", lambda: tmp_path)
    context = _Context()
    session_start._equip_executors(context, {"spark.master": "spark://host:7077"})
    (sent,) = context.sent
    with zipfile.ZipFile(sent) as archive:
        assert "flinkish/engine/slots/slot_host.py" in archive.namelist()
    assert context.pythonExec == "python3"


def test_a_session_of_ours_sends_nothing_on_one_machine_and_takes_the_python_that_is_set() -> None:
    context = _Context()
    session_start._equip_executors(context, {"spark.master": "local[2]", "spark.pyspark.python": "/opt/python"})
    assert (context.pythonExec, context.sent) == ("/opt/python", [])


def test_flinkish_that_runs_from_a_zip_file_sends_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package.pack(tmp_path / "f.zip")
    monkeypatch.setattr(package.flinkish, "__file__", str(tmp_path / "f.zip" / "flinkish" / "__init__.py"))
    assert package.package_in(tmp_path / "nowhere") == tmp_path / "f.zip"


def test_sessions_add_one_filter_for_py4j_to_the_root_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    monkeypatch.setattr(py4j, "level", py4j.level)
    monkeypatch.setattr(py4j, "propagate", py4j.propagate)
    monkeypatch.setattr(root, "filters", [])
    for _ in range(3):
        silence_py4j()
    assert len(root.filters) == 1
    record = logging.LogRecord("root", logging.INFO, "/site-packages/py4j/java_gateway.py", 1, "", None, None)
    assert not root.filter(record)
