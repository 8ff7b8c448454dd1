"""Aggregates of fields, for `KeyedStream.aggregate` and `WindowedStream.aggregate`.

Example:

    >>> from flinkish.datastream import aggregates
    >>> sales = env.from_collection([("a", 2.0), ("b", 1.0), ("a", 3.0)], Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    >>> totals = sales.key_by(0).aggregate(name=aggregates.key(), total=aggregates.sum(1), sales=aggregates.count())
    >>> totals.execute_and_collect(limit=9)
    [Row(name='a', total=2.0, sales=1), Row(name='b', total=1.0, sales=1), Row(name='a', total=5.0, sales=2)]
"""

from flinkish.udf.aggregates import *  # noqa: F403
