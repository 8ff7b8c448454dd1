"""Lines of files -> counts -> a table of a database, exactly once; run by the tests in a process of its own.

Each line is a number. Rows are (number, how many numbers of its remainder by 7 have come), so a row that is lost or doubled, and
state that is, show in the table.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.datastream import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flinkish.datastream.state import ValueStateDescriptor
from tests.recovery.mains import job_environment, job_parser

ROW = Types.ROW_NAMED(["number", "count"], [Types.LONG(), Types.LONG()])


class Counts(KeyedProcessFunction):
    """Numbers the records of a key."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context):  # type: ignore[no-untyped-def]
        time.sleep(self.pause)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(number=value, count=count)


def kill_at_commit(number: int, committed: bool) -> None:
    """Kill this process when a transaction with rows is committed for the `number`th time: just before, or just after."""
    import sqlalchemy

    written: list[str] = []
    commits: list[None] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        written.append(statement)

    def reach(connection: sqlalchemy.Connection) -> None:
        if any(statement.startswith("INSERT INTO counts ") for statement in written):
            commits.append(None)
            if len(commits) == number:
                if committed:
                    connection.connection.commit()
                os.kill(os.getpid(), signal.SIGKILL)
        written.clear()

    sqlalchemy.event.listen(sqlalchemy.Engine, "after_cursor_execute", note)
    sqlalchemy.event.listen(sqlalchemy.Engine, "commit", reach)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = job_parser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--dead-letters", action="store_true")
    parser.add_argument("--kill-at-commit", type=int)
    parser.add_argument("--committed", action="store_true")
    given = parser.parse_args(arguments)
    if given.kill_at_commit:
        kill_at_commit(given.kill_at_commit, given.committed)
    settings = {"high-availability.cluster-id": "database"}
    if given.dead_letters:
        settings["pipeline.dead-letters.dir"] = given.output / "dead"
    env = job_environment(given, 40, settings)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(given.output / "input")).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    counts = lines.map(int, Types.LONG()).uid("numbers").key_by(lambda number: number % 7, Types.LONG())
    rows = counts.process(Counts(given.pause), ROW).uid("counts")
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(given.url).build()
    execution = JdbcExecutionOptions.builder().with_batch_size(100).with_max_retries(0 if given.dead_letters else 3).build()
    rows.add_sink(JdbcSink.exactly_once_sink("INSERT INTO counts VALUES (?, ?)", ROW, options, execution)).uid("table")
    env.execute("database")


if __name__ == "__main__":
    main()
