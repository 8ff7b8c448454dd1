"""Which operators work on columns, and why the others take records one by one."""

from __future__ import annotations

from flinkish.common.kinds import INTEGER_BITS, field_keys, kind_of, shape_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import FieldTimestampAssigner, WatermarkStrategy
from flinkish.graph.field_keys import fields_of_key
from flinkish.graph.job_graph import JobGraph
from flinkish.graph.stream_graph import NodeId, StreamNode
from flinkish.graph.windows import are_aligned, are_folded_counts, are_folded_sessions, are_global_counts
from flinkish.program import operators as configs
from flinkish.program.transformations import Partitioner, Partitioning
from flinkish.udf.aggregates import FieldAggregates
from flinkish.udf.function_wrappers import describe
from flinkish.udf.rolling import AggregatingReduceFunction


def records_only(node: StreamNode) -> str | None:
    """Return why an operator takes, or as a source makes, records one by one; None if it works on columns."""
    match node.operator:
        case configs.SourceConfig(source=source, watermarks=watermarks):
            return source.why_records or _times(watermarks, node.output_type)
        case configs.SinkConfig(sink=sink) | configs.SinkWriterConfig(sink=sink):
            return sink.why_records
        case configs.MapBatchesConfig() | configs.FilterColumnsConfig() | configs.SelectColumnsConfig() | configs.TopNConfig():
            return None
        case configs.AggregateConfig(function=aggregates):
            return aggregates.why_by_record
        case configs.ReduceConfig(function=AggregatingReduceFunction() as reducing):
            return reducing.why_by_record(node.output_type)
        case configs.DeduplicateConfig(function=deduplicating):
            return None if deduplicating.ttl is None else "its time-to-live looks at each record"
        case configs.WindowConfig() as config:
            return _windows(config)
        case configs.TimestampsAndWatermarksConfig(strategy=strategy):
            return _times(strategy, node.output_type)
        case config:
            function = getattr(config, "function", None)
            return "one record at a time" if function is None else f"calls {describe(function)} for each record"


def unpacked_by(partitioner: Partitioner, record_type: TypeInformation, target: StreamNode) -> str | None:
    """Return why columns become records on the way to an operator, or in it; None if they stay columns."""
    if partitioner.partitioning in (Partitioning.SHUFFLE, Partitioning.CUSTOM):
        return "each record is sent to a subtask of its own"
    if partitioner.partitioning is Partitioning.HASH:
        assert partitioner.key_selector is not None
        if fields_of_key(partitioner.key_selector, record_type, target.key_type) is None:
            return "the key is no integer or text in a field, nor several of them; key_by(field) keeps columns"
    return records_only(target)


def fields_read(node: StreamNode) -> frozenset[int] | None:
    """Return the positions of the fields that an operator reads of its records, besides the key; None if it may need all."""
    match node.operator:
        case configs.AggregateConfig(function=aggregates):
            return aggregates.fields_read
        case configs.WindowConfig(fold=FieldAggregates() as aggregates, late_data_tag=None) as config if _are_known(config):
            return aggregates.fields_read
        case _:
            return None


def combined_before(node: StreamNode) -> FieldAggregates | None:
    """Return the aggregates of windows if records may be combined before they are sent to them, so that no result changes."""
    match node.operator:
        case configs.WindowConfig(fold=FieldAggregates() as aggregates, late_data_tag=None, allowed_lateness=0) as config:
            return aggregates if are_aligned(config) and aggregates.in_any_order else None
        case _:
            return None


def working_on_columns(graph: JobGraph, *, batch: bool) -> dict[NodeId, str | None]:
    """Return, for each operator, why it works on records; None for those that work on columns. Empty if none does."""
    nodes = {node.id: node for vertex in graph.vertices.values() for node in vertex.operators}
    # What leaves by a side output is records.
    forward = Partitioner(partitioning=Partitioning.FORWARD)
    chained = [edge for vertex in graph.vertices.values() for edge in vertex.chain_edges if edge.side_output is None]
    links = [(edge.source, nodes[edge.target], forward) for edge in chained]
    links += [(e.source, graph.vertices[e.target_vertex].head, e.partitioner) for e in graph.edges if e.side_output is None]
    #: Source and target of an edge, and why columns become records on it or in the target; None if they stay columns.
    edges = [
        (source, target.id, unpacked_by(partitioner, nodes[source].output_type, target)) for source, target, partitioner in links
    ]
    found: dict[NodeId, str | None] = {}
    for node in nodes.values():
        reason = "batch mode sorts records by key" if batch and node.key_selectors else records_only(node)
        if reason is None and isinstance(node.operator, configs.SourceConfig):
            if all(why is not None for source, _, why in edges if source == node.id):
                reason = "what reads it takes records"
        elif reason is None and not isinstance(node.operator, _MAKES_COLUMNS):
            read = [(source, why) for source, target, why in edges if target == node.id]
            whys = [why for source, why in read if found[source] is None and not _makes_records(nodes[source])]
            reason = next((why for why in whys if why is not None), None) if whys else "its input is records"
        found[node.id] = reason
    uses = any(found[node.id] is None and node.key_selectors for node in nodes.values())
    return found if uses or any(isinstance(node.operator, _MAKES_COLUMNS) for node in nodes.values()) else {}


def calls_nothing(graph: JobGraph, *, batch: bool) -> bool:
    """Tell whether all operators work on columns without a function of the program, behind sources that make these."""
    reasons = working_on_columns(graph, batch=batch)
    operators = [node.operator for vertex in graph.vertices.values() for node in vertex.operators]
    calls = any(isinstance(operator, configs.MapBatchesConfig) for operator in operators)
    return bool(reasons) and not any(reasons.values()) and not calls


def _makes_records(node: StreamNode) -> bool:
    """Tell whether results are records also if an operator works on columns: changes, which are not all of kind INSERT."""
    return isinstance(node.operator, configs.TopNConfig)


#: Operators that put records into columns if they get records.
_MAKES_COLUMNS = (configs.MapBatchesConfig, configs.FilterColumnsConfig, configs.SelectColumnsConfig)


def _times(strategy: WatermarkStrategy | None, record_type: TypeInformation) -> str | None:
    if strategy is None:
        return None
    assigner = strategy.timestamp_assigner
    if assigner is not None and not isinstance(assigner, FieldTimestampAssigner):
        return "a function assigns event times; with_timestamp_assigner(field) would not"
    if assigner is not None:
        _, types = shape_of(record_type)
        fields = field_keys(record_type)
        if assigner.field not in fields or kind_of(types[fields.index(assigner.field)]) not in INTEGER_BITS:
            return f"the field {assigner.field!r} with the event time is no integer"
    if not strategy.needs_highest_only:
        return "the program's own generator of watermarks looks at each record"
    return None


def _windows(config: configs.WindowConfig) -> str | None:
    if not isinstance(config.fold, FieldAggregates):
        return "the windows call a function for each record; aggregate(total=sum(...)) would not"
    if not _are_known(config):
        known = "tumbling and sliding windows of time or of a number of records, and sessions with a fixed gap"
        return f"only {known}, with the default trigger, and global windows with a CountTrigger work on columns"
    return config.fold.why_by_record


def _are_known(config: configs.WindowConfig) -> bool:
    """Tell whether there is an operator that folds columns into such windows."""
    counts = are_folded_counts(config) or are_global_counts(config)
    return counts or are_aligned(config) or are_folded_sessions(config, fixed_gap=True)
