"""Harnesses for one or several operators in a row, with one or two inputs; `piece_harness.py` explains how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.data_stream import DataStream
from flinkish.testing.piece_harness import HarnessOptions, PieceHarness
from flinkish.testing.results import StreamRecord
from flinkish.testing.steps import Emit, EmitWatermark, End, MarkActive, MarkIdle

__all__ = ["OneInputHarness", "TwoInputHarness"]


class OneInputHarness(PieceHarness):
    """Runs a piece of a program with one input.

    `build` gets the input as a stream and returns the stream to be observed: one operator, or any number of them, keyed or not.
    With an `input_type`, pushed values are converted like those of from_collection. A push raises the errors of user code; after
    an error the harness can only be closed.

    Example:

        >>> from flinkish.common import Types
        >>> from flinkish.datastream import KeyedProcessFunction
        >>> from flinkish.datastream.state import ValueStateDescriptor
        >>> from flinkish.testing import OneInputHarness
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, context):
        ...         self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key(), self.count.value()
        >>> harness = OneInputHarness(lambda words: words.key_by(str.lower, Types.STRING()).process(Count()))
        >>> harness.process_element("Be", 10)
        >>> harness.process_element("be", 20)
        >>> snapshot = harness.snapshot()
        >>> harness.process_watermark(110)
        >>> harness.take_output()
        [StreamRecord(value=('be', 2), timestamp=110)]
        >>> harness.close()
        >>> with harness.restored(snapshot, parallelism=3) as restored:
        ...     restored.process_element("BE", 30)
        ...     restored.process_watermark(110)
        ...     restored.take_output()
        [StreamRecord(value=('be', 3), timestamp=110)]
    """

    def __init__(
        self,
        build: Callable[[DataStream], DataStream],
        input_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        super().__init__(build, (input_type,), **options)

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Push a record; event time in milliseconds."""
        self._push(Emit(value, timestamp), 0)

    def process_elements(self, values: Iterable[Any], timestamp: int | None = None) -> None:
        """Push records in one epoch, all with the same event time; a StreamRecord has one of its own."""
        for value in values:
            record = value if isinstance(value, StreamRecord) else StreamRecord(value, timestamp)
            self._inputs[0].do(Emit(*record))
        self._pushed()

    def process_watermark(self, timestamp: int) -> None:
        """Push a watermark; milliseconds."""
        self._push(EmitWatermark(timestamp), 0)

    def process_status(self, *, idle: bool) -> None:
        """Mark the input as idle, or as active again."""
        self._push(MarkIdle() if idle else MarkActive(), 0)

    def end_input(self) -> None:
        """End the input, after the final watermark."""
        self._push(End(), 0)


class TwoInputHarness(PieceHarness):
    """Runs a piece of a program with two inputs; see OneInputHarness.

    Example:

        >>> from flinkish.common import Types
        >>> from flinkish.datastream import CoProcessFunction, OutputTag
        >>> from flinkish.testing import TwoInputHarness
        >>> odd = OutputTag("odd", Types.LONG())
        >>> class Switch(CoProcessFunction):
        ...     on = False
        ...     def process_element1(self, value, ctx):
        ...         self.on = value
        ...     def process_element2(self, value, ctx):
        ...         if self.on:
        ...             yield (odd, value) if value % 2 else value
        >>> def build(switch, numbers):
        ...     return switch.connect(numbers).process(Switch())
        >>> with TwoInputHarness(build, side_outputs=[odd]) as harness:
        ...     harness.process_element2(1)
        ...     harness.process_element1(True)
        ...     harness.process_element2(2, 20)
        ...     harness.process_element2(3, 30)
        ...     harness.take_output(), harness.take_output(odd)
        ([StreamRecord(value=2, timestamp=20)], [StreamRecord(value=3, timestamp=30)])
    """

    def __init__(
        self,
        build: Callable[[DataStream, DataStream], DataStream],
        first_type: TypeInformation | None = None,
        second_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        super().__init__(build, (first_type, second_type), **options)

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Push a record into the first input; event time in milliseconds."""
        self._push(Emit(value, timestamp), 0)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Push a record into the second input; event time in milliseconds."""
        self._push(Emit(value, timestamp), 1)

    def process_watermark1(self, timestamp: int) -> None:
        """Push a watermark into the first input; milliseconds. The operator sees the lower one of both inputs."""
        self._push(EmitWatermark(timestamp), 0)

    def process_watermark2(self, timestamp: int) -> None:
        """Push a watermark into the second input; milliseconds. The operator sees the lower one of both inputs."""
        self._push(EmitWatermark(timestamp), 1)

    def process_both_watermarks(self, timestamp: int) -> None:
        """Push the same watermark into both inputs; milliseconds."""
        self._push(EmitWatermark(timestamp), 0, 1)

    def process_status1(self, *, idle: bool) -> None:
        """Mark the first input as idle, or as active again."""
        self._push(MarkIdle() if idle else MarkActive(), 0)

    def process_status2(self, *, idle: bool) -> None:
        """Mark the second input as idle, or as active again."""
        self._push(MarkIdle() if idle else MarkActive(), 1)

    def end_input1(self) -> None:
        """End the first input, after the final watermark."""
        self._push(End(), 0)

    def end_input2(self) -> None:
        """End the second input, after the final watermark."""
        self._push(End(), 1)

    def end_inputs(self) -> None:
        """End both inputs in one epoch."""
        self._push(End(), 0, 1)
