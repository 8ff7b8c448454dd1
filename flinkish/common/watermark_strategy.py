"""Watermark strategies: how records get their event time, and how watermarks are generated from it."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol, cast

from flinkish.common.arguments import instance_of, text_of
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.limits import LONG_MIN
from flinkish.common.time import Duration, milliseconds_of


class TimestampAssigner(ABC):
    """Extracts the event time from records."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time of a record in milliseconds since the epoch, as an int.

        `record_timestamp` is the record's previous timestamp in milliseconds, -2**63 if it has none.
        Differs from Flink: any value other than an int of 64 bits (also one of numpy), such as a float, a bool or a datetime,
        fails the job; PyFlink cuts the fraction of a float off. A first event time that looks like seconds is logged.
        """


class FieldTimestampAssigner(TimestampAssigner):
    """Reads the event time from a field; sources that emit columns then need not look at each record."""

    def __init__(self, field: int | str) -> None:
        self.field = field

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value[self.field]
        return time


class _CallableAssigner(TimestampAssigner):
    def __init__(self, function: Callable[[Any, int], int]) -> None:
        self.extract_timestamp = function  # type: ignore[method-assign, assignment]

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        raise AssertionError("replaced by the constructor")


class WatermarkOutput(Protocol):
    """Receives the watermarks of a generator."""

    def emit_watermark(self, timestamp: int) -> None:
        """Declare that no more records with an event time <= `timestamp` (milliseconds) are expected.

        A watermark that is not above the previous one is ignored.
        """

    def mark_idle(self) -> None:
        """Declare that this input is idle: it does not hold back event time until its next watermark or record."""


class WatermarkGenerator(ABC):
    """Generates watermarks from event times; each split of a source has a generator of its own.

    A generator that emits in `on_event` is called punctuated: its watermarks are sent at once, between the records. Watermarks
    emitted in `on_periodic_emit` are sent every `pipeline.auto-watermark-interval`, at the end of an epoch.

    Differs from Flink: PyFlink offers no generators written in Python. `get_state` and `set_state` move a generator from one
    process to another; the state must contain everything that later watermarks depend on.
    """

    @abstractmethod
    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Process one record with its event time in milliseconds (-2**63 if it has none)."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark if there is a new one."""

    def get_state(self) -> Any:
        """Return the generator's state as plain data; the default is a dict of all attributes."""
        return dict(vars(self))

    def set_state(self, state: Any) -> None:
        """Restore a state that `get_state` returned."""
        vars(self).update(state)


class BoundedOutOfOrdernessGenerator(WatermarkGenerator):
    """Follows the highest event time at a fixed distance: highest - bound - 1, as Flink's BoundedOutOfOrdernessWatermarks."""

    def __init__(self, max_out_of_orderness: int) -> None:
        """Make a generator with a bound in milliseconds."""
        self._delay = max_out_of_orderness + 1
        #: Highest event time seen, in milliseconds; -2**63 before the first.
        self.highest = LONG_MIN

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        if timestamp > self.highest:
            self.highest = timestamp

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        # Before the first event there is no watermark. (Flink emits Long.MIN, which has the same effect.)
        if self.highest != LONG_MIN:
            output.emit_watermark(max(self.highest - self._delay, LONG_MIN))

    def get_state(self) -> Any:
        return self.highest

    def set_state(self, state: Any) -> None:
        self.highest = state


class NoWatermarksGenerator(WatermarkGenerator):
    """Never emits."""

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass

    def get_state(self) -> Any:
        return None

    def set_state(self, state: Any) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkAlignment:
    """Watermark alignment: readers of one group wait while they are ahead of the slowest by more than `max_drift_ms`."""

    group: str
    max_drift_ms: int
    update_interval_ms: int = 1000


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How to assign event times and generate watermarks. Immutable: each `with_...` method returns a new strategy.

    >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_idleness(Duration.of_minutes(1))
    >>> strategy.idleness_ms
    60000

    Differs from Flink: `with_idleness` and `with_watermark_alignment` keep the timestamp assigner (PyFlink 2.3 drops it
    silently), and `with_timestamp_assigner` returns a new strategy, as documented, where PyFlink changes the one it is called on.
    """

    generator_supplier: Callable[[], WatermarkGenerator]
    timestamp_assigner: TimestampAssigner | None = None
    #: Milliseconds without a record after which a split is idle; None = never.
    idleness_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return a strategy for event times that never decrease within a split."""
        return WatermarkStrategy(functools.partial(BoundedOutOfOrdernessGenerator, 0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration | timedelta) -> WatermarkStrategy:
        """Return a strategy for event times that are out of order by at most `max_out_of_orderness`.

        Raises InvalidArgumentError if it is neither a Duration nor a timedelta, or is negative.
        """
        bound = _milliseconds(max_out_of_orderness, "max_out_of_orderness", minimum=0)
        return WatermarkStrategy(functools.partial(BoundedOutOfOrdernessGenerator, bound))

    @staticmethod
    def for_generator(generator_supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Return a strategy with the user's own generator; the supplier, often the class itself, makes one for each split.

        Raises InvalidArgumentError if the supplier cannot be called.
        """
        if not callable(generator_supplier) or isinstance(generator_supplier, WatermarkGenerator):
            raise InvalidArgumentError(
                "for_generator() expects a function or class that makes a WatermarkGenerator when called;"
                f" got {generator_supplier!r} of type {type(generator_supplier).__name__}",
                hint="pass the class (MyGenerator) or a lambda (lambda: MyGenerator(5)), not an instance.",
            )
        return WatermarkStrategy(generator_supplier)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return a strategy without watermarks, for jobs that only use processing time."""
        return WatermarkStrategy(NoWatermarksGenerator)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int] | int | str
    ) -> WatermarkStrategy:
        """Return this strategy with an assigner that extracts the event times.

        A field, the name in rows or the position in tuples, holds the milliseconds itself; sources of columns are fastest so.

        It is a TimestampAssigner or, as in Flink's Java API, a function of a record and its previous timestamp that returns the
        event time in milliseconds: `lambda value, record_timestamp: value[1]`. PyFlink takes only a TimestampAssigner.

        Raises InvalidArgumentError if it is neither, or a function that cannot be called with two arguments.
        """
        if isinstance(timestamp_assigner, (int, str)) and not isinstance(timestamp_assigner, bool):
            return replace(self, timestamp_assigner=FieldTimestampAssigner(timestamp_assigner))
        extract = getattr(timestamp_assigner, "extract_timestamp", None)
        if isinstance(timestamp_assigner, type) or not (callable(extract) or callable(timestamp_assigner)):
            raise InvalidArgumentError(
                "with_timestamp_assigner() expects a TimestampAssigner or a function;"
                f" got {timestamp_assigner!r} of type {type(timestamp_assigner).__name__}",
                hint="pass a function, lambda value, record_timestamp: ..., or an instance of a subclass of TimestampAssigner.",
            )
        if callable(extract) or not callable(timestamp_assigner):
            return replace(self, timestamp_assigner=cast(TimestampAssigner, timestamp_assigner))
        if not _takes_two(timestamp_assigner):
            raise InvalidArgumentError(
                f"the function of with_timestamp_assigner() must take two arguments; got {timestamp_assigner!r}",
                hint="lambda value, record_timestamp: ...; record_timestamp is the time that the source gave the record.",
            )
        return replace(self, timestamp_assigner=_CallableAssigner(timestamp_assigner))

    def with_idleness(self, idle_timeout: Duration | timedelta) -> WatermarkStrategy:
        """Return this strategy with an idle timeout: a split without records for this time holds back no watermark.

        Raises InvalidArgumentError if `idle_timeout` is neither a Duration nor a timedelta, or is below 1 ms.
        """
        return replace(self, idleness_ms=_milliseconds(idle_timeout, "idle_timeout", minimum=1))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration | timedelta,
        update_interval: Duration | timedelta | None = None,
    ) -> WatermarkStrategy:
        """Return this strategy with watermark alignment: a reader pauses while it is ahead of its group by more than the drift.

        This works for `from_source` with a Source. A reader is compared with the lowest watermark of all readers of the group
        that are neither idle nor finished, at least once per `update_interval` (1 second if not given). In batch mode, which has
        no watermarks, readers never pause. Raises InvalidArgumentError for a negative drift or an interval below 1 ms.
        A reader with several splits can pause single ones if it implements `pause_or_resume_splits`, as KafkaSource does;
        otherwise it pauses as a whole, by its slowest split. Source: FLIP-182 and FLIP-217.

        Differs from Flink: watermarks are compared after each epoch, however long the interval is. A reader that cannot pause
        single splits is no error.
        """
        alignment = WatermarkAlignment(
            group=text_of("watermark_group", watermark_group, empty=True),
            max_drift_ms=_milliseconds(max_allowed_watermark_drift, "max_allowed_watermark_drift", minimum=0),
            update_interval_ms=1000 if update_interval is None else _milliseconds(update_interval, "update_interval", minimum=1),
        )
        return replace(self, alignment=alignment)

    @property
    def generates_watermarks(self) -> bool:
        """Whether the strategy generates watermarks before the end of the input: False for `no_watermarks()`."""
        return self.generator_supplier is not NoWatermarksGenerator

    @property
    def needs_highest_only(self) -> bool:
        """Whether of several records the generator needs only the highest event time; False for a generator of the user's own."""
        supplier = self.generator_supplier
        made = supplier.func if isinstance(supplier, functools.partial) else supplier
        return made in (BoundedOutOfOrdernessGenerator, NoWatermarksGenerator)

    def create_generator(self) -> WatermarkGenerator:
        """Make a generator for one split.

        Raises InvalidArgumentError if the user's supplier does not return a WatermarkGenerator.
        """
        generator = self.generator_supplier()
        return instance_of("the result of the supplier given to WatermarkStrategy.for_generator()", generator, WatermarkGenerator)


class AssignerWithPeriodicWatermarksWrapper:
    """Refused: in PyFlink it wraps a Java object, which flinkish does not have."""

    def __init__(self, *_: Any) -> None:
        raise UnsupportedError(
            "AssignerWithPeriodicWatermarksWrapper wraps a Java class, and flinkish runs no Java user code",
            hint="write a TimestampAssigner, and a WatermarkGenerator for WatermarkStrategy.for_generator().",
        )


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, 0)
    except TypeError:
        return False
    except ValueError:  # a function written in C, without a signature
        return True
    return True


def _milliseconds(duration: object, what: str, *, minimum: int) -> int:
    hint = "write for example Duration.of_seconds(5)."
    return milliseconds_of(duration, what, kinds=(Duration,), minimum=minimum, hint=hint)
