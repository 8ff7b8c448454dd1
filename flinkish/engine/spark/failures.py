"""Describes failures of Spark: extracts the important lines out of hundreds."""

from __future__ import annotations

import re
import signal

from flinkish.common.errors import EngineError

_PYTHON_TRACE = re.compile(r"Traceback \(most recent call last\):.*?(?=\n\s*\n|\n\s*at |\nDriver stacktrace|\Z)", re.DOTALL)
_JAVA_FRAME = re.compile(r"^\s*(at \S+[(]|\.\.\. \d+ more|Driver stacktrace:)")
#: Exit code of a JVM that ran out of memory (Spark's SparkExitCode.OOM).
_OUT_OF_MEMORY = 52
_MEMORY_HINT = (
    "give it more with spark.driver.memory (on a cluster spark.executor.memory), or have it hold less at a time: lower "
    "execution.epoch.max-bytes, smaller records, fewer jobs in one session. A large record needs several times its size."
)
#: Message if a stage was run again after an executor was lost.
LOST_EXECUTOR = "An executor was lost in the middle of an epoch"
_HINTS = (
    (
        re.compile(
            r"OutOfMemoryError|Java heap space|GC overhead limit|exit code:? 52\b|exit code:? 137\b|beyond physical memory"
        ),
        "Spark ran out of memory: " + _MEMORY_HINT,
    ),
    (
        re.compile(r"indeterminate output was failed and retried|" + LOST_EXECUTOR),
        "what it held of the epoch cannot be made again alike; the restart strategy starts from the last checkpoint.",
    ),
    (
        re.compile(r"CANNOT_LOAD_STATE_STORE|CANNOT_READ_DELTA_FILE|CANNOT_READ_MISSING_SNAPSHOT"),
        "a slot moved to an executor that does not have its state, which is in the working folder of the executor that is lost; "
        "the restart strategy starts from the last checkpoint.",
    ),
    (
        re.compile(r"No module named 'flinkish"),
        "the executors do not have flinkish: install it there, or send it with --py-files.",
    ),
    (
        re.compile(r"No module named '"),
        "Spark's Python workers run another interpreter, or the executors lack a package: set PYSPARK_PYTHON to the driver's "
        "before the session is made, install the package there, or send it with add_python_file.",
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH|different minor version"),
        "driver and executors must run the same minor version of Python: set PYSPARK_PYTHON.",
    ),
    (
        re.compile(r"Python worker exited unexpectedly|worker crashed"),
        "a Python worker was killed; with a local master, local[*,4] lets Spark try a task again.",
    ),
)


def summarize(text: str, lines: int = 6) -> str:
    """Return the important lines of an exception's text: its first ones, or the end of a Python traceback; no Java frames."""
    head = [line.strip() for line in text.splitlines() if line.strip() and not _JAVA_FRAME.match(line)]
    trace = _PYTHON_TRACE.search(text)
    if trace is None:
        return "\n".join(head[:lines])
    tail = [line for line in trace.group().splitlines() if line.strip()]
    # The text of an error of flinkish is sufficient, such as one about missing packages.
    own = [place for place, line in enumerate(tail) if line.startswith("flinkish.common.errors.")]
    return "\n".join([head[0], *(tail[own[-1] :] if own else tail[-lines:])])


def of_ended_jvm(what: str, pid: int, code: int | None) -> EngineError:
    """Return the error for a JVM that has ended; `code` is its exit code, negative for a signal, None if unknown."""
    gone = f"{what}: the JVM of Spark, process {pid}, "
    if code == _OUT_OF_MEMORY:
        return EngineError(f"{gone}ran out of memory (java.lang.OutOfMemoryError) and ended.", hint=_MEMORY_HINT)
    if code is None:
        return EngineError(f"{gone}is gone.")
    if code >= 0:
        return EngineError(
            f"{gone}has ended with exit code {code}.", hint="its last words are on the standard error of this process."
        )
    by_kernel = "the kernel does that when the machine runs out of memory; `dmesg` says so." if -code == signal.SIGKILL else None
    return EngineError(f"{gone}was ended by signal {-code}.", hint=by_kernel)


def hint_for(text: str) -> str | None:
    """Return a hint on how to solve the problem; None if there is none."""
    return next((hint for pattern, hint in _HINTS if pattern.search(text)), None)
