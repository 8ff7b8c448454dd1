"""An aggregate whose accumulator is an object."""

from __future__ import annotations

from flinkish.datastream.functions import AggregateFunction


class Statistics(AggregateFunction):
    """Count and sum, in an accumulator that is changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]
