"""The classic example: counts the words of lines that come over a socket, and prints each new count.

Start a server in one terminal, such as `nc -lk 9999`, then `python jobs/socket_word_count.py --port 9999` in another, and type
lines into the first. A socket cannot be read twice, so lines in flight are lost at a failure: counts are exact only if nothing
fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from command_line import ArgumentParser, clear_errors, environment, positive

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.socket import SocketSource
from flinkish.datastream.data_stream import DataStream


def words(line: str) -> Iterator[tuple[str, int]]:
    """Split a line into lower-case words, each with a count of one; punctuation at the ends of words is removed."""
    for part in line.lower().split():
        word = part.strip(".,;:!?\"'()[]")
        if word:
            yield word, 1


def count(lines: DataStream) -> DataStream:
    """Return the running count of each word."""
    word_and_count = Types.TUPLE([Types.STRING(), Types.LONG()])
    return (
        lines.flat_map(words, output_type=word_and_count)
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda total, one: (total[0], total[1] + one[1]))
    )


def main() -> None:
    """Run until the server closes the connection or the job is interrupted."""
    parser = ArgumentParser(__doc__)
    parser.add_argument("--host", default="localhost", help="default: %(default)s")
    parser.add_argument("--port", type=positive, default=9999, help="default: %(default)s")
    arguments = parser.parse_args()
    with clear_errors():
        env = environment(arguments)
        source = SocketSource(arguments.host, arguments.port)
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "Socket", Types.STRING())
        count(lines).print()
        env.execute("Socket word count")


if __name__ == "__main__":
    main()
