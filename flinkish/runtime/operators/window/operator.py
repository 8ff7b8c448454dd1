"""The window operator: any assigner, trigger, evictor and function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from flinkish.common.columns import Columns
from flinkish.common.errors import InvalidArgumentError, StateError
from flinkish.program.operators import WindowConfig
from flinkish.runtime.elements import Emit, Records
from flinkish.runtime.keys import original_key
from flinkish.runtime.operators.base import LATE_RECORDS, OperatorContext
from flinkish.runtime.operators.function import side_outputs
from flinkish.runtime.operators.runtime_context import TaskRuntimeContext
from flinkish.runtime.operators.timed import TimedOperator
from flinkish.runtime.operators.window.contents import FoldedContents, TimestampedContents, contents_of
from flinkish.runtime.operators.window.contexts import AssignerContext, EvictorContext, TriggerContext, WindowFunctionContext
from flinkish.runtime.operators.window.namespaces import MergingWindows, Namespace, WindowNamespaces
from flinkish.runtime.operators.window.restored import (
    CONTENTS,
    MERGING_SET,
    SESSIONS,
    drop_timers,
    namespace_kinds,
    refuse_other_kind,
    refuse_other_windows,
    refuse_timers,
    take_sessions,
)
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK
from flinkish.runtime.state.handles import Fold
from flinkish.runtime.state.tables import Namespaced
from flinkish.udf.functions import (
    AllWindowFunction,
    Function,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkish.udf.time_domain import TimeDomain
from flinkish.udf.window import MergingWindowAssigner, TriggerResult
from flinkish.udf.window.assigners import no_timestamp

#: Key, window, context, elements.
CallFunction = Callable[[Any, Any, WindowFunctionContext, list[Any]], Any]

_CONTINUE = TriggerResult.CONTINUE
_LATE = "the watermark has passed all windows of the record and their allowed lateness"


class BaseWindowOperator(TimedOperator[WindowConfig]):
    """The base class of all window operators: handles functions, late records and firing.

    Results have the timestamp of the timer or record that fired the window, as in PyFlink (in Java Flink, it is always that of
    the window's end).
    """

    #: Folds records into accumulators, for operators that keep these themselves.
    _fold: Fold

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        config = self.config
        self.assigner: Any = config.assigner
        self.event_time: bool = self.assigner.is_event_time()
        #: The timers of the assigner's time domain.
        self.own_timers = self.timers.event_time if self.event_time else self.timers.processing_time
        #: What folds records, and the type of its accumulators; None if windows keep their records.
        self.fold_function: Any = config.fold
        self.fold_type: Any = config.fold_type
        self.lateness = config.allowed_lateness if self.event_time else 0
        self.namespaces = WindowNamespaces(self.assigner)
        self.late_records = context.metrics.counter(LATE_RECORDS)

    def open(self) -> None:
        merging = isinstance(self.assigner, MergingWindowAssigner)
        self.function_context = WindowFunctionContext(self, self.backend, merging=merging)
        tag = self.config.late_data_tag
        self._late_output: Emit | None = None if tag is None else side_outputs(self).get(tag.tag_id)
        if self.fold_function is not None:
            self.fold_function.open(TaskRuntimeContext(self.context, self.backend))
        super().open()
        self._call = calling(self.function)
        #: Whether the function only passes its elements on.
        self._passes_through = type(self.function) in (PassThroughWindowFunction, PassThroughAllWindowFunction)
        #: None if the user's function has nothing to clear.
        self.clear_function = clear_of(self.function)

    def close(self) -> None:
        opened = self._opened
        try:
            super().close()
        finally:
            if opened and self.fold_function is not None:
                self.fold_function.close()

    def closes(self) -> bool:
        fold = self.fold_function
        return super().closes() or (self._opened and fold is not None and type(fold).close is not Function.close)

    def late(self, value: Any, timestamp: int | None) -> None:
        """Handle a record whose windows have all been removed."""
        if self._late_output is not None:
            self._late_output(value, timestamp)
        else:
            self.late_records.inc()
            self.context.dead_letters.late(value, timestamp, self.current_watermark, _LATE)

    def arrival_time(self) -> int:
        """Return the processing time of records that come now."""
        return self.context.time.now()

    def times_of(self, records: Records) -> list[int]:
        """Return the times by which records are assigned to windows: event time, or that of their arrival."""
        if not self.event_time:
            return [self.arrival_time()] * len(records.values)
        times = records.timestamps
        if times is None or None in times:
            raise no_timestamp(self.assigner)
        return times  # type: ignore[return-value]

    def column_times(self, columns: Columns) -> Any:
        """Return the same of columns, as an array of numpy; None if a record has no event time."""
        import numpy as np

        if not self.event_time:
            return np.full(len(columns), self.arrival_time(), np.int64)
        times = columns.timestamps
        return None if times is None or times.null_count else times.to_numpy()

    def emit_window(self, window: Any, namespace: Namespace, elements: list[Any], timestamp: int | None) -> None:
        """Call the window function and emit its results."""
        if self._passes_through:
            for element in elements:
                self.emit(element, timestamp)
            return
        context = self.function_context
        context.enter(window, namespace)
        results = self._call(original_key(self.backend.current_key), window, context, elements)
        if results is None:
            raise InvalidArgumentError(
                f"{type(self.function).__name__} of {self.node.name} must return an iterable of results; got None",
                hint="use `yield value`, or return a list; an empty one for no results.",
            )
        self.emit_results(results, timestamp)

    def emit_folded(self, window: Any, namespace: Namespace, accumulator: Any, timestamp: int | None) -> None:
        """Emit the result of a window's accumulator, if it has one."""
        result = self._fold.result(accumulator)
        if result is not None:
            self.emit_window(window, namespace, [result], timestamp)

    def clear_window_function(self, window: Any, namespace: Namespace) -> None:
        """Let the user's function clear its state of a window that is removed."""
        if self.clear_function is not None:
            self.function_context.enter(window, namespace)
            self.clear_function(self.function_context)


class WindowOperator(BaseWindowOperator):
    """Follows the rules of Flink's WindowOperator, record by record and window by window."""

    def open(self) -> None:
        super().open()
        self.trigger = self.config.trigger
        self.contents = contents_of(self.config, self.backend, repr(self.node.name))
        self.trigger_context = TriggerContext(self, self.backend)
        self._assigner_context = AssignerContext(self, self.backend)
        self._evictor_context = EvictorContext(self)
        self._merging: MergingWindows | None = None
        if isinstance(self.assigner, MergingWindowAssigner):
            self._merging = MergingWindows(self.assigner, self.backend, self.namespaces, self._on_merge)
        if self.context.restored_checkpoint is not None:
            self._take_over()
        own = MERGING_SET if self._merging is not None else self.contents.name
        refuse_other_windows(self.context.state, own)

    def _take_over(self) -> None:
        """Take over windows of a checkpoint that aligned.py or sessions.py stored, which set no timers of this kind."""
        backend, uid = self.backend, self.context.state.uid
        refuse_timers(self.context.state, self.timers)
        contents = list(backend.keys_and_namespaces(self.contents.name))
        kind = self.namespaces.kind()
        if kind is not None:
            kinds = {type(namespace) for _, namespace in contents}
            if (kinds | namespace_kinds(self.timers)) - {kind, type(None)}:
                refuse_other_kind(uid, self.assigner)
        if self._merging is not None:
            if contents and not any(True for _ in backend.keys_and_namespaces(MERGING_SET)):
                refuse_other_windows(self.context.state, MERGING_SET, {CONTENTS})
            if SESSIONS in self.context.state.unclaimed() and isinstance(self.contents, FoldedContents):
                drop_timers(self.timers)
                take_sessions(backend, self.fold_type, self._take_session)
            return
        if self.timers.is_empty():
            for key, namespace in contents:
                backend.current_key = key
                self._set_default_timers(namespace)

    def _take_session(self, key: Any, start: int, end: int, accumulator: Any) -> None:
        assert self._merging is not None
        assert isinstance(self.contents, FoldedContents)
        namespace = start, end
        self._merging.take(namespace)
        self.contents.scope.current_namespace = namespace
        self.contents.table.put(self.contents.scope.address(), accumulator)
        self._set_default_timers(namespace)

    def _set_default_timers(self, namespace: Namespace) -> None:
        """Set the timers that the assigner's default trigger and this operator would have set for a window with records."""
        window = self.namespaces.window(namespace)
        end: int = window.max_timestamp()
        if not self.event_time or end > self.current_watermark:
            self._register_cleanup(namespace, end)
        self._register_cleanup(namespace, self._cleanup_time(window))

    def process(self, value: Any, timestamp: int | None) -> None:
        time = MIN_WATERMARK if timestamp is None else timestamp
        windows = self.assigner.assign_windows(value, time, self._assigner_context)
        skipped = True
        merging = self._merging
        of = self.namespaces.of
        for window in windows:
            namespace = of(window)
            contents_namespace = namespace
            if merging is not None:
                before = namespace
                namespace = merging.add(namespace)
                if namespace != before:
                    window = self.namespaces.window(namespace)
            cleanup = self._cleanup_time(window)
            if self.event_time and cleanup <= self.current_watermark:
                if merging is not None:
                    merging.retire(namespace)
                continue
            if merging is not None:
                contents_namespace = merging.state_window(namespace)
            skipped = False
            self.contents.scope.current_namespace = contents_namespace
            self.contents.add(value, timestamp)
            self.trigger_context.enter(namespace)
            result = self.trigger.on_element(value, time, window, self.trigger_context)
            if result is not _CONTINUE:
                self._act(result, window, namespace, timestamp)
            self._register_cleanup(namespace, cleanup)
        if skipped and self.event_time:
            if time + self.lateness <= self.current_watermark:
                self.late(value, timestamp)
            elif isinstance(windows, Collection) and windows:
                # Flink neither counts it nor sends it to the side output: the assigner's windows end before the record's time.
                self.context.dead_letters.late(value, timestamp, self.current_watermark, _LATE)

    def _act(self, result: TriggerResult, window: Any, namespace: Namespace, timestamp: int | None) -> None:
        if result.is_fire():
            if isinstance(self.contents, TimestampedContents):
                self._evict_and_fire(self.contents, window, namespace, timestamp)
            else:
                elements = self.contents.elements()
                if elements is not None:
                    self.emit_window(window, namespace, elements, timestamp)
        if result.is_purge():
            self.contents.clear()

    def _evict_and_fire(self, contents: TimestampedContents, window: Any, namespace: Namespace, timestamp: int | None) -> None:
        evictor, fold, context = self.config.evictor, self.fold_function, self._evictor_context
        assert evictor is not None
        contents_namespace = contents.scope.current_namespace
        elements = contents.timestamped()
        if not elements:
            return
        evictor.evict_before(elements, len(elements), window, context)
        values = [element.value for element in elements]
        if fold is not None and values:
            folding = Fold(fold, repr(self.node.name))
            result = folding.result(functools.reduce(folding.into, values, None))
            values = [] if result is None else [result]
        if values or fold is None:
            self.emit_window(window, namespace, values, timestamp)
        evictor.evict_after(elements, len(elements), window, context)
        contents.scope.current_namespace = contents_namespace
        contents.replace(elements)

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        self.backend.current_key = key
        contents_namespace = namespace
        if self._merging is not None:
            contents_namespace = self._merging.state_window(namespace)
            if contents_namespace is None:
                # The window was merged into another one, but its trigger has not deleted the timer.
                return
        window = self.namespaces.window(namespace)
        self.contents.scope.current_namespace = contents_namespace
        self.trigger_context.enter(namespace)
        in_event_time = domain is TimeDomain.EVENT_TIME
        if in_event_time:
            result = self.trigger.on_event_time(timestamp, window, self.trigger_context)
        else:
            result = self.trigger.on_processing_time(timestamp, window, self.trigger_context)
        if result is not _CONTINUE:
            self._act(result, window, namespace, timestamp)
        if in_event_time == self.event_time and timestamp == self._cleanup_time(window):
            self._clear(window, namespace)

    def _clear(self, window: Any, namespace: Namespace) -> None:
        self.contents.clear()
        self.trigger_context.enter(namespace)
        self.trigger.clear(window, self.trigger_context)
        self.clear_window_function(window, namespace)
        if self._merging is not None:
            self._merging.retire(namespace)

    def _cleanup_time(self, window: Any) -> int:
        """Return when a window is removed (ms); MAX = never."""
        end: int = window.max_timestamp()
        return min(end + self.lateness, MAX_WATERMARK)

    def _register_cleanup(self, namespace: Namespace, time: int) -> None:
        if time != MAX_WATERMARK:
            self.own_timers.register(time, Namespaced(self.backend.current_key, namespace))

    def _on_merge(
        self, result: Namespace, merged: Sequence[Namespace], state_window: Namespace, state_windows: Sequence[Namespace]
    ) -> None:
        window = self.namespaces.window(result)
        now = self.current_watermark if self.event_time else self.context.time.now()
        if self._cleanup_time(window) <= now:
            raise StateError(
                f"{window!r}, merged of {[self.namespaces.window(source) for source in merged]}, ends before "
                f"{'the watermark' if self.event_time else 'the processing time'} {now}: merging must not make a window late",
                hint="merge_windows() must cover the windows that it merges.",
            )
        context = self.trigger_context
        context.enter(result)
        context.merged = merged
        self.trigger.on_merge(window, context)
        context.merged = ()
        for source in merged:
            context.enter(source)
            source_window = self.namespaces.window(source)
            self.trigger.clear(source_window, context)
            self.own_timers.delete(self._cleanup_time(source_window), Namespaced(self.backend.current_key, source))
        if state_windows:
            self.contents.merge(state_window, state_windows)


def calling(function: Any) -> CallFunction:
    """Return how to call a window function."""
    if isinstance(function, WindowFunction):
        apply = function.apply
        return lambda key, window, context, elements: apply(key, window, elements)
    if isinstance(function, AllWindowFunction):
        apply_all = function.apply
        return lambda key, window, context, elements: apply_all(window, elements)
    if isinstance(function, ProcessWindowFunction):
        process = function.process
        return lambda key, window, context, elements: process(key, context, elements)
    assert isinstance(function, ProcessAllWindowFunction)
    process_all = function.process
    return lambda key, window, context, elements: process_all(context, elements)


def clear_of(function: Any) -> Callable[[Any], None] | None:
    """Return the `clear` method of a window function if it defines one."""
    for base in (ProcessWindowFunction, ProcessAllWindowFunction):
        if isinstance(function, base):
            return None if type(function).clear is base.clear else function.clear
    return None
