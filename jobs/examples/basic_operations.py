"""map, filter, and a sum for each key: three programs, one after the other on one environment.

Run it with `python jobs/examples/basic_operations.py [-Dexecution.engine=local]`. With `pyflink` in place of `flinkish` in the
imports it runs on Flink and prints the same; so do all examples in this folder.
"""

from __future__ import annotations

from flinkish.common import Row, Types
from flinkish.datastream import DataStream, StreamExecutionEnvironment

PARCEL = Types.ROW_NAMED(["number", "city", "kilograms"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
PARCELS = [(1, "Oslo", 2.5), (2, "Bergen", 0.75), (3, "Oslo", 12.0), (4, "Tromso", 4.25), (5, "Bergen", 3.5)]


def wrapped(parcels: DataStream) -> DataStream:
    """Transform each record: put each parcel into a box."""
    return parcels.map(lambda parcel: Row(parcel.number, parcel.city, parcel.kilograms + 0.5), output_type=PARCEL)


def heavy(parcels: DataStream) -> DataStream:
    """Keep only some of the records."""
    return parcels.filter(lambda parcel: parcel.kilograms > 3)


def sum_by_city(parcels: DataStream) -> DataStream:
    """Add each record to the sum of its key, and emit the new sum."""
    pairs = parcels.map(lambda parcel: (parcel.city, parcel.kilograms))
    return pairs.key_by(lambda pair: pair[0]).sum(1)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for operation in (wrapped, heavy, sum_by_city):
        operation(env.from_collection(PARCELS, PARCEL)).print()
        env.execute(operation.__name__)


if __name__ == "__main__":
    main()
