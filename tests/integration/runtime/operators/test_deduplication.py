"""The first record of each key, of all time or of some time, also restored at another parallelism."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Duration, Time, Types
from flinkish.common.errors import InvalidArgumentError
from flinkish.datastream import DataStream
from flinkish.testing import OneInputHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def harness(ttl: Time | Duration | None = None, **options: Any) -> OneInputHarness:
    def build(stream: DataStream) -> DataStream:
        return stream.key_by(0).deduplicate(ttl)

    return OneInputHarness(build, PAIR, **options)


def test_later_records_of_a_key_are_dropped_for_ever() -> None:
    with harness() as first:
        first.process_elements([("a", 1), ("b", 2), ("a", 3)], 10)
        first.process_element(("b", 4))
        assert first.take_output() == [(("a", 1), 10), (("b", 2), 10)]
        snapshot = first.snapshot()
    with harness(snapshot=snapshot, parallelism=3) as second:
        second.set_processing_time(10**12)
        second.process_elements([("a", 5), ("c", 6), ("b", 7)])
        assert second.take_output() == [(("c", 6), None)]


def test_with_a_time_to_live_a_key_is_forgotten_after_its_first_record() -> None:
    with harness(Duration.of_millis(100)) as found:
        for time, value in [(0, 1), (99, 2), (100, 3), (199, 4), (200, 5)]:
            found.set_processing_time(time)
            found.process_element(("a", value))
        assert found.take_values() == [("a", 1), ("a", 3), ("a", 5)]


@pytest.mark.parametrize("ttl", [Time.seconds(0), 5, "1 h"])
def test_a_time_to_live_is_a_time(ttl: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the ttl of deduplicate\(\)"):
        harness(ttl)
