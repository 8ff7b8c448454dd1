"""Where a program of this folder gives something else than with PyFlink, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """`results` is what comes here; None: it is refused, or fails."""

    why: str
    results: list[str] | None = None


def _fired(*firings: tuple[int, int, list[int]]) -> list[str]:
    return [repr((f"TimeWindow(start={start}, end={end})", contents)) for start, end, contents in firings]


#: Here it is as in Flink; see "Timers of a trigger" in docs/pages/operators/triggers.md, which holds for process functions, too.
_DUE_TIMERS = (
    "Timers that a timer sets or deletes, and that are due as well, fire or not at once; in PyFlink with the next watermark."
)
#: Here it is as in Flink.
_BATCH = (
    "PyFlink's workers use state and timers of a key after the end of the key: results are lost, late, or the job never ends."
)

#: Flink's Java API takes no such thing for records either.
_PARTS = "A text, bytes, a dict and a Row are one record; PyFlink makes records of their letters, numbers, keys and fields."

#: Java's serializers of these types take no null: a NullPointerException, mostly.
_NOT_NULL = (
    *("byte", "boolean", "short", "int", "long", "float", "double", "char", "sql_timestamp", "pickled", "tuple", "row"),
    *("bytes", "primitive_array", "basic_array", "object_array", "list", "map"),
)

DIFFERENCES: dict[str, Difference] = {
    **{
        f"nothing.of_type_{name}": Difference("None is a record of every type; in PyFlink of most only within a chain.", ["True"])
        for name in _NOT_NULL
    },
    "assigners.a_window_function_that_returns_text": Difference(_PARTS),
    "asynchronous.text": Difference(_PARTS),
    "values.flat_map_of_a_dict": Difference(_PARTS),
    "values.flat_map_of_text": Difference(_PARTS),
    "values.rows_are_iterable": Difference(_PARTS),
    "values.text_as_a_collection": Difference(_PARTS),
    "values.a_generator": Difference("An iterator is refused: whether it ends is not known, and it cannot be read again."),
    "timers.timestamps_that_are_no_whole_numbers": Difference("A float is refused; PyFlink cuts its fraction off."),
    "values.numbers_that_are_too_large_wrap_around": Difference("A number that is out of its type's range is refused."),
    "asynchronous.side_outputs": Difference("PyFlink cannot make an asynchronous operator with a side output.", ["1", "2"]),
    "late_records.late_data_that_nobody_reads": Difference(
        "Without a reader of the side output PyFlink puts pairs of its tag and a late record among the results.",
        [
            "('a', 0, 10, [1, 2, 9], 11)",
            "('a', 10, 20, [13], 24)",
            "('a', 20, 30, [25], 'MAX')",
            "('b', 10, 20, [12, 14, 15, 16], 24)",
        ],
    ),
    "timers.the_default_on_timer": Difference("PyFlink fails where on_timer was not overridden.", ["('a', 1)"]),
    "triggers.continuous": Difference(
        _DUE_TIMERS,
        _fired(
            (0, 10, [1, 2, 5]),
            (0, 10, [1, 2, 5, 9]),
            (0, 10, [1, 2, 5, 9, 4]),
            *[(10, 20, [12, 15, 19])] * 3,
            *[(30, 40, [30])] * 3,
        ),
    ),
    "triggers.continuous_with_lateness": Difference(
        _DUE_TIMERS,
        _fired(
            (0, 10, [1, 2, 5]),
            (0, 10, [1, 2, 5, 9]),
            (0, 10, [1, 2, 5, 9, 4]),
            (0, 10, [1, 2, 5, 9, 4, 7]),
            *[(10, 20, [12, 15, 19])] * 3,
            *[(30, 40, [30])] * 3,
        ),
    ),
    "triggers.continuous_at_the_end": Difference(
        _DUE_TIMERS,
        _fired(*[(0, 20, [1, 2, 5, 9, 4, 12, 7, 15, 19])] * 7, *[(20, 40, [30])] * 3),
    ),
    "triggers.continuous_in_sessions": Difference(
        _DUE_TIMERS,
        _fired(
            (1, 9, [1, 2, 5]),
            (1, 9, [1, 2, 5]),
            (1, 13, [1, 2, 5, 9]),
            (1, 13, [1, 2, 5, 9]),
            (1, 16, [1, 2, 5, 9, 4, 12]),
            (1, 19, [1, 2, 5, 9, 4, 12, 7, 15]),
            (1, 19, [1, 2, 5, 9, 4, 12, 7, 15]),
            (1, 23, [1, 2, 5, 9, 4, 12, 7, 15, 19]),
            (1, 23, [1, 2, 5, 9, 4, 12, 7, 15, 19]),
            (1, 23, [1, 2, 5, 9, 4, 12, 7, 15, 19]),
            (1, 23, [1, 2, 5, 9, 4, 12, 7, 15, 19]),
            (30, 34, [30]),
            (30, 34, [30]),
        ),
    ),
    "triggers.timers_of_a_trigger_with_lateness": Difference(
        _DUE_TIMERS,
        _fired(
            (0, 10, [1, 2, 5]),
            (0, 10, [1, 2, 5]),
            (0, 10, [1, 2, 5, 9]),
            (0, 10, [1, 2, 5, 9, 4]),
            (0, 10, [1, 2, 5, 9, 4]),
            (0, 10, [1, 2, 5, 9, 4, 7]),
            (0, 10, [1, 2, 5, 9, 4, 7]),
            (10, 20, [12, 15]),
            (10, 20, [12, 15, 19]),
            (10, 20, [12, 15, 19]),
            (10, 20, [12, 15, 19]),
            (30, 40, [30]),
            (30, 40, [30]),
            (30, 40, [30]),
        ),
    ),
    "values.rows_in_rows": Difference(
        "PyFlink cannot encode such a row.", ["Row(f0='k', f1=Row(f0=1, f1=['a', None], f2={'m': 2}))", "Row(f0=None, f1=None)"]
    ),
    "batch.records_and_timers_key_by_key": Difference(
        _BATCH,
        [
            "('record', ('a', 1), 1, 'MIN', 1)",
            "('record', ('a', 3), 3, 'MIN', 2)",
            "('record', ('a', 3), 3, 'MIN', 3)",
            "('record', ('a', 12), 12, 'MIN', 4)",
            "('timer', 'a', 6, 'MAX', 4)",
            "('timer', 'a', 8, 'MAX', 4)",
            "('timer', 'a', 17, 'MAX', 4)",
            "('record', ('b', 2), 2, 'MIN', 1)",
            "('record', ('b', 5), 5, 'MIN', 2)",
            "('record', ('b', 15), 15, 'MIN', 3)",
            "('timer', 'b', 7, 'MAX', 3)",
            "('timer', 'b', 10, 'MAX', 3)",
            "('timer', 'b', 20, 'MAX', 3)",
            "('record', ('c', 1), 1, 'MIN', 1)",
            "('record', ('c', 8), 8, 'MIN', 2)",
            "('timer', 'c', 6, 'MAX', 2)",
            "('timer', 'c', 13, 'MAX', 2)",
        ],
    ),
    "batch.tumbling_windows": Difference(
        _BATCH,
        [
            "('a', 'TimeWindow(start=0, end=5)', [1, 3, 3], 'MAX')",
            "('a', 'TimeWindow(start=10, end=15)', [12], 'MAX')",
            "('b', 'TimeWindow(start=0, end=5)', [2], 'MAX')",
            "('b', 'TimeWindow(start=5, end=10)', [5], 'MAX')",
            "('b', 'TimeWindow(start=15, end=20)', [15], 'MAX')",
            "('c', 'TimeWindow(start=0, end=5)', [1], 'MAX')",
            "('c', 'TimeWindow(start=5, end=10)', [8], 'MAX')",
        ],
    ),
    "batch.sliding_windows": Difference(
        _BATCH,
        [
            "('a', 'TimeWindow(start=-5, end=5)', [1, 3, 3], 'MAX')",
            "('a', 'TimeWindow(start=0, end=10)', [1, 3, 3], 'MAX')",
            "('a', 'TimeWindow(start=5, end=15)', [12], 'MAX')",
            "('a', 'TimeWindow(start=10, end=20)', [12], 'MAX')",
            "('b', 'TimeWindow(start=-5, end=5)', [2], 'MAX')",
            "('b', 'TimeWindow(start=0, end=10)', [2, 5], 'MAX')",
            "('b', 'TimeWindow(start=5, end=15)', [5], 'MAX')",
            "('b', 'TimeWindow(start=10, end=20)', [15], 'MAX')",
            "('b', 'TimeWindow(start=15, end=25)', [15], 'MAX')",
            "('c', 'TimeWindow(start=-5, end=5)', [1], 'MAX')",
            "('c', 'TimeWindow(start=0, end=10)', [1, 8], 'MAX')",
            "('c', 'TimeWindow(start=5, end=15)', [8], 'MAX')",
        ],
    ),
    "batch.sliding_windows_reduced": Difference(
        _BATCH,
        [
            "('a', 7)",
            "('a', 7)",
            "('a', 12)",
            "('a', 12)",
            "('b', 2)",
            "('b', 7)",
            "('b', 5)",
            "('b', 15)",
            "('b', 15)",
            "('c', 1)",
            "('c', 9)",
            "('c', 8)",
        ],
    ),
    "batch.sessions": Difference(
        _BATCH,
        [
            "('a', 'TimeWindow(start=1, end=7)', [1, 3, 3], 'MAX')",
            "('a', 'TimeWindow(start=12, end=16)', [12], 'MAX')",
            "('b', 'TimeWindow(start=2, end=9)', [2, 5], 'MAX')",
            "('b', 'TimeWindow(start=15, end=19)', [15], 'MAX')",
            "('c', 'TimeWindow(start=1, end=5)', [1], 'MAX')",
            "('c', 'TimeWindow(start=8, end=12)', [8], 'MAX')",
        ],
    ),
    "batch.windows_in_processing_time": Difference(
        _BATCH,
        ["('a', [1, 3, 3, 12])", "('b', [2, 5, 15])", "('c', [1, 8])"],
    ),
    "batch.nothing_is_late": Difference(
        _BATCH,
        [
            "('a', 'TimeWindow(start=0, end=5)', [1, 2], 'MAX')",
            "('a', 'TimeWindow(start=50, end=55)', [50], 'MAX')",
            "('b', 'TimeWindow(start=0, end=5)', [3], 'MAX')",
        ],
    ),
    "batch.two_inputs_are_merged_by_key_and_time": Difference(
        _BATCH,
        [
            "(1, ('a', 1), 'MIN')",
            "(2, ('a', 3))",
            "(1, ('a', 5), 'MIN')",
            "('timer', 'a', 3, [1, -3, 5])",
            "(2, ('b', 1))",
            "(1, ('b', 4), 'MIN')",
            "(2, ('b', 9))",
            "('timer', 'b', 1, [-1, 4, -9])",
            "('timer', 'b', 9, [-1, 4, -9])",
            "(2, ('c', 7))",
            "('timer', 'c', 7, [-7])",
        ],
    ),
    "batch.timers_that_timers_set_are_ignored": Difference(
        _BATCH,
        ["('a', 1)", "('a', 3)", "('a', 12)", "('b', 2)", "('b', 5)", "('b', 15)", "('c', 1)", "('c', 8)"],
    ),
}
