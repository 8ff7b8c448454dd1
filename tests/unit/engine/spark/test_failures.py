"""The gist of Spark's errors."""

from __future__ import annotations

from flinkish.engine.spark.failures import hint_for, summarize

_PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
  File "/x/shim.py", line 9, in run
    raise EngineError("no host")
EngineError: no host

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_java_frames_are_left_out() -> None:
    text = "Job aborted\n\tat org.apache.spark.X(Y.scala:1)\n... 3 more\nDriver stacktrace:\nCaused by: disk full"
    assert summarize(text) == "Job aborted\nCaused by: disk full"


def test_a_python_traceback_gives_its_last_lines() -> None:
    gist = summarize(_PYTHON, lines=2)
    assert gist.splitlines() == [
        "An exception was thrown from the Python worker:",
        '    raise EngineError("no host")',
        "EngineError: no host",
    ]


def test_an_empty_text_gives_an_empty_gist() -> None:
    assert summarize("") == ""


def test_a_missing_package_gets_a_hint() -> None:
    assert "--py-files" in (hint_for("ModuleNotFoundError: No module named 'flinkish'") or "")
    assert "PYSPARK_PYTHON" in (hint_for("ModuleNotFoundError: No module named 'psutil'") or "")


def test_a_killed_worker_gets_a_hint() -> None:
    assert "local[*,4]" in (hint_for("Python worker exited unexpectedly (crashed)") or "")


def test_an_unknown_failure_gets_none() -> None:
    assert hint_for("disk full") is None


def test_java_frames_of_modules_are_left_out_too() -> None:
    assert summarize("Job aborted\n\tat java.base/java.lang.Thread.run(Thread.java:840)") == "Job aborted"


def test_a_lost_executor_gets_a_hint() -> None:
    text = "Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and retried."
    assert "last checkpoint" in (hint_for(text) or "")


def test_a_lack_of_memory_is_named_as_such() -> None:
    for text in ("java.lang.OutOfMemoryError: Java heap space", "ExecutorLostFailure (executor 1 exited: exit code: 52)"):
        assert "spark.driver.memory" in (hint_for(text) or "")


def test_an_error_of_flinkish_in_a_python_worker_gives_its_text_without_frames() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "./flinkish.zip/flinkish/engine/slots/hosts.py", line 31, in <module>\n    import msgspec\n'
        "flinkish.common.errors.MissingPackageError: flinkish needs a package\nHint: install it\n"
    )
    assert summarize(text) == (
        "An exception was thrown from the Python worker:\n"
        "flinkish.common.errors.MissingPackageError: flinkish needs a package\nHint: install it"
    )
