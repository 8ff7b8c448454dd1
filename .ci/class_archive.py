"""Makes an archive of the Java classes that Spark loads (class data sharing), for the tests, which start a hundred JVMs.

The argument is the path of the archive. With it a session starts seconds sooner. A JVM of another Java version ignores it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_JOB = """
import sys
from flinkish.common import Configuration, Row, Types
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink

configuration = Configuration()
configuration.set_string("execution.checkpointing.interval", "1 s")
configuration.set_string("execution.checkpointing.dir", sys.argv[1] + "/checkpoints")
# A defect ends the job, instead of having it start again for ever.
configuration.set_string("restart-strategy.type", "none")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(2)
rows = Types.ROW_NAMED(["number"], [Types.LONG()])
numbers = env.from_collection(list(range(100)), Types.LONG()).key_by(lambda number: number % 7, Types.LONG())
numbers.reduce(lambda a, b: a + b).map(Row, rows).sink_to(DeltaSink(sys.argv[1] + "/table"))
env.execute("class archive")
"""


def main(archive: Path) -> int:
    print("Preparing Spark's classes for the tests (once) ...", flush=True)
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _JOB, folder]
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        print(result.stdout[-3000:], file=sys.stderr)
        print("A first job on Spark failed: see above.", file=sys.stderr)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
