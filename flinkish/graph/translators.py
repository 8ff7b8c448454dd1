"""One translator for each kind of transformation.

A transformation of an operator adds one node and its edges. A virtual transformation adds nothing, but decides how its readers
are connected; so it is translated into a list of `Output`s, to which a reader connects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from flinkish.common.errors import InvalidProgramError
from flinkish.graph.stream_graph import NodeId
from flinkish.program.operators import OperatorConfig, SinkConfig, SourceConfig
from flinkish.program.transformations import (
    BroadcastStateTransformation,
    CacheTransformation,
    OneInputTransformation,
    Partitioner,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    TransformationId,
    TwoInputTransformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from flinkish.common.typeinfo import TypeInformation
    from flinkish.udf.output_tag import OutputTag

KeySelector = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The point to which a reader of a transformation connects; None = the default partitioning, or the main output."""

    node: NodeId
    partitioner: Partitioner | None = None
    side_output: OutputTag | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """One input of an operator: the transformation it reads, the type of its records, and its key if the operator is keyed."""

    transformation: TransformationId
    key_selector: KeySelector | None = None


class TranslationContext(Protocol):
    """The services that translators may use."""

    @property
    def batch(self) -> bool:
        """Whether the program runs in batch mode."""
        ...

    def outputs_of(self, transformation: TransformationId) -> tuple[Output, ...]:
        """Return the outputs of a transformation that has already been translated."""
        ...

    def add_node(
        self,
        transformation: Transformation,
        operator: OperatorConfig,
        *,
        inputs: tuple[NodeInput, ...],
        name: str | None = None,
        key_type: TypeInformation | None = None,
    ) -> Output:
        """Add an operator with its edges; `name` overrides the name of the transformation."""
        ...


T = TypeVar("T", bound=Transformation)
Translator = Callable[[T, TranslationContext], tuple[Output, ...]]


def translate(transformation: Transformation, context: TranslationContext) -> tuple[Output, ...]:
    """Translate one transformation; the transformations that it reads must have been translated before."""
    translator = TRANSLATORS.get(type(transformation))
    if translator is None:
        raise InvalidProgramError(
            f"there is no translator for {type(transformation).__name__} (transformation {transformation.name!r})",
            hint=f"known are {', '.join(sorted(known.__name__ for known in TRANSLATORS))}.",
        )
    return translator(transformation, context)


def _translate_source(source: SourceTransformation, context: TranslationContext) -> tuple[Output, ...]:
    operator = SourceConfig(source=source.source, watermarks=source.watermarks)
    return (context.add_node(source, operator, inputs=(), name=f"Source: {source.name}"),)


def _translate_one_input(one: OneInputTransformation, context: TranslationContext) -> tuple[Output, ...]:
    inputs = (NodeInput(transformation=one.input, key_selector=one.key_selector),)
    return (context.add_node(one, one.operator, inputs=inputs, key_type=one.key_type),)


def _translate_two_input(two: TwoInputTransformation, context: TranslationContext) -> tuple[Output, ...]:
    if (two.first_key_selector is None) != (two.second_key_selector is None):
        raise InvalidProgramError(
            f"only one input of {two.name!r} is keyed; both must be, or none",
            hint="call key_by on both streams before connect(), or on the stream that connect() returns.",
        )
    inputs = (
        NodeInput(transformation=two.first_input, key_selector=two.first_key_selector),
        NodeInput(transformation=two.second_input, key_selector=two.second_key_selector),
    )
    return (context.add_node(two, two.operator, inputs=inputs, key_type=two.key_type),)


def _translate_broadcast_state(both: BroadcastStateTransformation, context: TranslationContext) -> tuple[Output, ...]:
    inputs = (
        NodeInput(transformation=both.regular_input, key_selector=both.key_selector),
        NodeInput(transformation=both.broadcast_input),
    )
    return (context.add_node(both, both.operator, inputs=inputs, key_type=both.key_type),)


def _translate_sink(sink: SinkTransformation, context: TranslationContext) -> tuple[Output, ...]:
    inputs = (NodeInput(transformation=sink.input),)
    return (context.add_node(sink, SinkConfig(sink=sink.sink), inputs=inputs, name=f"Sink: {sink.name}"),)


def _translate_cache(cache: CacheTransformation, context: TranslationContext) -> tuple[Output, ...]:
    # Readers within this job get the records as they come. As in Flink, an unbounded stream is not cached.
    if context.batch:
        inputs = (NodeInput(transformation=cache.input),)
        context.add_node(cache, SinkConfig(sink=cache.cache.sink()), inputs=inputs, name="CacheWrite")
    return context.outputs_of(cache.input)


def _translate_union(union: UnionTransformation, context: TranslationContext) -> tuple[Output, ...]:
    return tuple(output for read in union.union_inputs for output in context.outputs_of(read))


def _translate_partition(partition: PartitionTransformation, context: TranslationContext) -> tuple[Output, ...]:
    # The partitioning nearest to the reader wins, as in Flink: `rebalance().key_by(...)` is HASH.
    return tuple(replace(output, partitioner=partition.partitioner) for output in context.outputs_of(partition.input))


def _translate_side_output(side: SideOutputTransformation, context: TranslationContext) -> tuple[Output, ...]:
    # A side output belongs to the operator; the partitioning of the main output does not affect it.
    return tuple(Output(node=output.node, side_output=side.tag) for output in context.outputs_of(side.input))


def _entry(kind: type[T], translator: Translator[T]) -> tuple[type[Transformation], Translator[Transformation]]:
    return kind, cast("Translator[Transformation]", translator)


#: The table: a new kind of transformation is one class, one function and one line here.
TRANSLATORS: Mapping[type[Transformation], Translator[Transformation]] = dict(
    [
        _entry(SourceTransformation, _translate_source),
        _entry(OneInputTransformation, _translate_one_input),
        _entry(TwoInputTransformation, _translate_two_input),
        _entry(BroadcastStateTransformation, _translate_broadcast_state),
        _entry(SinkTransformation, _translate_sink),
        _entry(CacheTransformation, _translate_cache),
        _entry(UnionTransformation, _translate_union),
        _entry(PartitionTransformation, _translate_partition),
        _entry(SideOutputTransformation, _translate_side_output),
    ]
)
