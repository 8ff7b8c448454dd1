"""Count windows: crates of three fruits of one kind, each with its weight; fruits that do not fill a crate are left over.

Run it with `python jobs/examples/tumbling_count_window.py [--output FOLDER] [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterable

from example_io import parse_arguments, print_or_write

from flinkish.common import Types
from flinkish.datastream import DataStream, StreamExecutionEnvironment, WindowFunction
from flinkish.datastream.window import CountWindow

#: Grams and kind.
FRUITS = [
    (150, "apple"), (180, "pear"), (160, "apple"), (140, "apple"), (175, "pear"), (155, "apple"), (170, "pear"), (145, "apple"),
    (165, "apple"), (185, "pear"),
]  # fmt: skip


class Weigh(WindowFunction[tuple, tuple, str, CountWindow]):
    """Adds up the grams in a crate."""

    def apply(self, key: str, window: CountWindow, inputs: Iterable[tuple]) -> Iterable[tuple]:
        return [(key, sum(grams for grams, _ in inputs))]


def crates(env: StreamExecutionEnvironment) -> DataStream:
    """Return each crate when it is full."""
    fruits = env.from_collection(FRUITS, Types.TUPLE([Types.INT(), Types.STRING()]))
    by_kind = fruits.key_by(lambda fruit: fruit[1], key_type=Types.STRING())
    return by_kind.count_window(3).apply(Weigh(), Types.TUPLE([Types.STRING(), Types.INT()]))


def main() -> None:
    arguments = parse_arguments(__doc__)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    print_or_write(crates(env), arguments.output)
    env.execute("Count windows")


if __name__ == "__main__":
    main()
