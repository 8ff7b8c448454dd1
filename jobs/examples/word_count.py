"""Counts the words of a text in batch mode: one result for each word, when the whole text has been read.

Run it with `python jobs/examples/word_count.py [--input PATH] [--output FOLDER] [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from example_io import parse_arguments, print_or_write

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat

TEXT = [
    "the tide comes in and the tide goes out",
    "the boats go out with the tide",
    "and come in with the tide again",
    "all but one boat that came to stay",
]


def lines(env: StreamExecutionEnvironment, path: str | None) -> DataStream:
    """Return the lines of a file, or the built-in lines if there is no path."""
    if path is None:
        return env.from_collection(TEXT, Types.STRING())
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).process_static_file_set().build()
    return env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "Text files")


def split(line: str) -> Iterator[str]:
    yield from line.split()


def word_count(text: DataStream) -> DataStream:
    """Return each word with its number of occurrences."""
    word_and_count = Types.TUPLE([Types.STRING(), Types.INT()])
    return (
        text.flat_map(split, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=word_and_count)
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda total, one: (total[0], total[1] + one[1]))
    )


def main() -> None:
    arguments = parse_arguments(__doc__, with_input=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    # All results in one file.
    env.set_parallelism(1)
    print_or_write(word_count(lines(env, arguments.input)), arguments.output)
    env.execute("Word count")


if __name__ == "__main__":
    main()
