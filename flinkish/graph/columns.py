"""Which operators work on columns, and why the others take records one by one."""

from __future__ import annotations

from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, shape_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import (
    BoundedOutOfOrdernessGenerator,
    FieldTimestampAssigner,
    NoWatermarksGenerator,
    WatermarkStrategy,
)
from flinkish.graph.stream_graph import StreamNode
from flinkish.program import operators as configs
from flinkish.udf.aggregates import FieldAggregates, why_by_record
from flinkish.udf.function_wrappers import describe
from flinkish.udf.window import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

_ALIGNED = (TumblingEventTimeWindows, TumblingProcessingTimeWindows, SlidingEventTimeWindows, SlidingProcessingTimeWindows)


def records_only(node: StreamNode) -> str | None:
    """Return why an operator takes, or as a source makes, records one by one; None if it works on columns."""
    match node.operator:
        case configs.SourceConfig(source=source, watermarks=watermarks):
            return _times(watermarks, node.output_type) if source.makes_columns else "the source makes records"
        case configs.SinkConfig(sink=sink) | configs.SinkWriterConfig(sink=sink):
            return None if sink.takes_columns else "the sink writes records"
        case configs.MapBatchesConfig() | configs.FilterColumnsConfig() | configs.SelectColumnsConfig():
            return None
        case configs.AggregateConfig(function=aggregates):
            return why_by_record(aggregates)
        case configs.WindowConfig() as config:
            return _windows(config)
        case configs.TimestampsAndWatermarksConfig(strategy=strategy):
            return _times(strategy, node.output_type)
        case config:
            function = getattr(config, "function", None)
            return "one record at a time" if function is None else f"calls {describe(function)} for each record"


def _times(strategy: WatermarkStrategy | None, record_type: TypeInformation) -> str | None:
    if strategy is None:
        return None
    assigner = strategy.timestamp_assigner
    if assigner is not None and not isinstance(assigner, FieldTimestampAssigner):
        return "a function assigns event times; with_timestamp_assigner(field) would not"
    kind, types = shape_of(record_type)
    if assigner is not None:
        names = part_names(record_type) if kind is Kind.ROW else range(len(types)) if kind is Kind.TUPLE else ()
        if assigner.field not in names or kind_of(types[list(names).index(assigner.field)]) not in INTEGER_BITS:
            return f"the field {assigner.field!r} with the event time is no integer"
    if type(strategy.create_generator()) not in (BoundedOutOfOrdernessGenerator, NoWatermarksGenerator):
        return "the program's own generator of watermarks looks at each record"
    return None


def _windows(config: configs.WindowConfig) -> str | None:
    if not isinstance(config.fold, FieldAggregates):
        return "the windows call a function for each record; aggregate(total=sum(...)) would not"
    trigger = EventTimeTrigger if config.assigner.is_event_time() else ProcessingTimeTrigger
    if type(config.assigner) not in _ALIGNED or type(config.trigger) is not trigger or config.evictor is not None:
        return "only tumbling and sliding windows with the default trigger work on columns"
    return why_by_record(config.fold)
