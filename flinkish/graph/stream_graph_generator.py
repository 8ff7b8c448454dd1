"""Builds the stream graph from the program: resolves virtual transformations, fills in defaults, assigns uids.

A transformation of an operator adds one node and its edges. A virtual transformation adds nothing, but decides how its readers
are connected: it becomes a list of `_Output`s, to which a reader connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.common import options
from flinkish.common.errors import InvalidProgramError
from flinkish.common.execution_config import ExecutionConfig
from flinkish.common.ids import OperatorUid
from flinkish.common.limits import UPPER_BOUND_MAX_PARALLELISM
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import NoWatermarksGenerator, WatermarkStrategy
from flinkish.graph.runtime_mode import runtime_mode
from flinkish.graph.stream_graph import DEFAULT_SLOT_SHARING_GROUP, NodeId, StreamEdge, StreamGraph, StreamNode
from flinkish.graph.uids import InputIdentity, UidAssigner
from flinkish.program.execution_mode import RuntimeExecutionMode
from flinkish.program.operators import OperatorConfig, SinkConfig, SourceConfig, TimestampsAndWatermarksConfig
from flinkish.program.program import Program
from flinkish.program.sources import Boundedness, Source
from flinkish.program.transformations import (
    CacheTransformation,
    OneInputTransformation,
    Partitioner,
    Partitioning,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    TransformationId,
    TwoInputTransformation,
    UnionTransformation,
)
from flinkish.udf.output_tag import OutputTag

#: From Flink's KeyGroupRangeAssignment: the least default of the maximum parallelism, and the upper bound of any.
DEFAULT_MAX_PARALLELISM = 128


def generate(program: Program) -> StreamGraph:
    """Return the stream graph of a program; see `with_recorded_max_parallelism` for one that starts from a checkpoint.

    Raises InvalidProgramError for a program that cannot run: it has a parallelism out of range, one uid twice, or a forward edge
    between different parallelisms.
    """
    generator = _Generator(program)
    for transformation in program.transformations.values():
        generator.translate(transformation)
    return StreamGraph(
        job_name=program.job_name,
        nodes=generator.nodes,
        edges=tuple(generator.edges),
        chaining_enabled=program.configuration.get(options.OPERATOR_CHAINING),
        batch=generator.batch,
        chain_different_max_parallelism=program.configuration.get(
            options.OPERATOR_CHAINING_CHAIN_OPERATORS_WITH_DIFFERENT_MAX_PARALLELISM
        ),
    )


def with_recorded_max_parallelism(graph: StreamGraph, recorded: Mapping[OperatorUid, int]) -> StreamGraph:
    """Return the stream graph of a job that starts from a checkpoint, which records the maximum parallelism of its operators.

    Operators for which the program sets none get the recorded one, since key groups must not change under stored state. Raises
    InvalidProgramError for a parallelism above it.
    """
    nodes = {
        node_id: replace(node, max_parallelism=_checked_max_parallelism(recorded[node.uid], node.parallelism, node.name))
        if node.max_parallelism_is_default and node.uid in recorded
        else node
        for node_id, node in graph.nodes.items()
    }
    return replace(graph, nodes=nodes)


def default_max_parallelism(parallelism: int) -> int:
    """Return Flink's default: one and a half times the parallelism, rounded up to a power of two, within [128, 32768]."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << max(wanted - 1, 0).bit_length(), DEFAULT_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """The point to which a reader of a transformation connects; None = the default partitioning, or the main output."""

    node: NodeId
    partitioner: Partitioner | None = None
    side_output: OutputTag | None = None


#: One input of an operator: the transformation that it reads, and its key selector if it is keyed.
_Input = tuple[TransformationId, Callable[[Any], Any] | None]


class _Generator:
    """The state of a translation in progress."""

    def __init__(self, program: Program) -> None:
        settings = ExecutionConfig(program.configuration)
        self._parallelism_of_program = settings.get_parallelism()
        self._max_parallelism_of_program = settings.get_max_parallelism()
        self._uids = UidAssigner(generate=settings.has_auto_generated_uids_enabled())
        self._outputs: dict[TransformationId, tuple[_Output, ...]] = {}
        self._types: dict[TransformationId, TypeInformation] = {}
        self.nodes: dict[NodeId, StreamNode] = {}
        self.edges: list[StreamEdge] = []
        mode = runtime_mode(program.configuration, program.transformations.values())
        self.batch = mode is RuntimeExecutionMode.BATCH

    def translate(self, transformation: Transformation) -> None:
        """Translate a transformation; those that it reads must have been translated before."""
        self._outputs[transformation.id] = self._outputs_for(transformation)
        self._types[transformation.id] = transformation.output_type

    def _outputs_for(self, transformation: Transformation) -> tuple[_Output, ...]:
        match transformation:
            case SourceTransformation() as it:
                source = SourceConfig(source=it.source, watermarks=it.watermarks)
                return self._add_node(it, source, name=f"Source: {it.name}")
            case SinkTransformation() as it:
                return self._add_node(it, SinkConfig(sink=it.sink), (it.input, None), name=f"Sink: {it.name}")
            case OneInputTransformation() as it:
                return self._add_node(it, it.operator, (it.input, it.key_selector), key_type=it.key_type)
            case TwoInputTransformation() as it:
                first, second = (it.first_input, it.first_key_selector), (it.second_input, it.second_key_selector)
                return self._add_node(it, it.operator, first, second, key_type=it.key_type)
            case CacheTransformation() as it:
                # Readers within this job get the records as they come. As in Flink, an unbounded stream is not cached.
                if self.batch:
                    self._add_node(it, SinkConfig(sink=it.cache.sink()), (it.input, None), name="CacheWrite")
                return self._outputs[it.input]
            case UnionTransformation() as it:
                return tuple(output for read in it.union_inputs for output in self._outputs[read])
            case PartitionTransformation() as it:
                # The partitioning nearest to the reader wins, as in Flink: `rebalance().key_by(...)` is HASH.
                return tuple(replace(output, partitioner=it.partitioner) for output in self._outputs[it.input])
            case SideOutputTransformation() as it:
                # A side output belongs to the operator; the partitioning of the main output does not affect it.
                return tuple(_Output(node=output.node, side_output=it.tag) for output in self._outputs[it.input])
            case _:
                kind = type(transformation).__name__
                raise InvalidProgramError(f"there is no translator for {kind} (transformation {transformation.name!r})")

    def _add_node(
        self,
        transformation: Transformation,
        operator: OperatorConfig,
        *inputs: _Input,
        name: str | None = None,
        key_type: TypeInformation | None = None,
    ) -> tuple[_Output]:
        """Add an operator with its edges; `name` overrides the name of the transformation."""
        node_id = NodeId(transformation.id)
        name = transformation.name if name is None else name
        read = [(index, output) for index, (origin, _) in enumerate(inputs) for output in self._outputs[origin]]
        uid = self._uid(transformation, name, type(operator).__name__, read)
        operator = self._with_held_watermarks(operator, name, [output.node for _, output in read])
        parallelism = self._parallelism(transformation, name)
        if transformation.beside_input:
            parallelism = self._parallelism_beside(transformation, [output for _, output in read], parallelism)
        # Both None and Flink's -1 mean that none is set.
        given = (transformation.max_parallelism, self._max_parallelism_of_program)
        max_parallelism = next((each for each in given if each is not None and each != -1), None)
        wanted = default_max_parallelism(parallelism) if max_parallelism is None else max_parallelism
        self.nodes[node_id] = StreamNode(
            id=node_id,
            name=name,
            description=transformation.description or name,
            operator=operator,
            uid=uid,
            parallelism=parallelism,
            max_parallelism=_checked_max_parallelism(wanted, parallelism, name),
            max_parallelism_is_default=max_parallelism is None,
            slot_sharing_group=self._slot_sharing_group(transformation, [output.node for _, output in read]),
            chaining_strategy=transformation.chaining_strategy,
            input_types=tuple(self._types[origin] for origin, _ in inputs),
            output_type=transformation.output_type,
            key_selectors=tuple(selector for _, selector in inputs if selector is not None),
            key_type=key_type,
            made_at=transformation.made_at,
        )
        self.edges.extend(self._edge(node_id, index, output, keyed=inputs[index][1] is not None) for index, output in read)
        return (_Output(node=node_id),)

    def _uid(self, transformation: Transformation, name: str, kind: str, read: Sequence[tuple[int, _Output]]) -> OperatorUid:
        identities = [
            InputIdentity(index, self.nodes[output.node].uid, None if output.side_output is None else output.side_output.tag_id)
            for index, output in read
        ]
        return self._uids.assign(
            name=name, kind=kind, uid=transformation.uid, uid_hash=transformation.uid_hash, inputs=identities
        )

    def _with_held_watermarks(self, operator: OperatorConfig, name: str, inputs: Sequence[NodeId]) -> OperatorConfig:
        """Return the operator; it sends no watermark before the end of its input if the order of that input is a source's choice.

        Otherwise, records that happened to be read last would be late. The end of the input is a watermark of its own.
        """
        match operator:
            case SourceConfig(source=Source(unordered=True), watermarks=WatermarkStrategy() as strategy):
                return replace(operator, watermarks=_without_watermarks(strategy))
            case TimestampsAndWatermarksConfig(strategy=strategy):
                sources = self._sources_before(inputs)
                if not any(map(_is_unordered, sources)):
                    return operator
                endless = [node.name for node in sources if is_endless(node)]
                if not endless:
                    return replace(operator, strategy=_without_watermarks(strategy))
                mixed = [node.name for node in self._sources_before(inputs, through_joins=False) if _is_unordered(node)]
                if mixed:
                    raise InvalidProgramError(
                        f"{name!r} would have to hold its watermarks back until {mixed[0]!r} has been read, because Spark has "
                        f"chosen the order of its rows; but {endless[0]!r}, which is in the same stream, never ends",
                        hint="give each stream its own WatermarkStrategy before union(), as in from_data_frame(df, strategy).",
                    )
        return operator

    def _sources_before(self, nodes: Iterable[NodeId], *, through_joins: bool = True) -> list[StreamNode]:
        """Return the sources of these operators' records; without `through_joins`, not those behind two inputs."""
        waiting, seen, found = list(nodes), set[NodeId](), list[StreamNode]()
        while waiting:
            node = self.nodes[waiting.pop()]
            if node.id in seen:
                continue
            seen.add(node.id)
            if isinstance(node.operator, SourceConfig):
                found.append(node)
            elif through_joins or len(node.input_types) == 1:
                waiting += [edge.source for edge in self.edges if edge.target == node.id]
        return found

    def _parallelism(self, transformation: Transformation, name: str) -> int:
        if not transformation.can_be_parallel:
            if transformation.parallelism not in (None, 1):
                raise InvalidProgramError(
                    f"{name!r} can only run with parallelism 1; got {transformation.parallelism}",
                    hint="set the parallelism of the operator after it instead.",
                )
            return 1
        parallelism = self._parallelism_of_program if transformation.parallelism is None else transformation.parallelism
        if parallelism < 1:
            raise InvalidProgramError(f"the parallelism of {name!r} must be at least 1; got {parallelism}")
        return parallelism

    def _parallelism_beside(self, transformation: Transformation, read: Sequence[_Output], declared: int) -> int:
        """Return the parallelism of the inputs, so that records keep their order, and a single input is chained.

        A chained sink is one exchange less, 0.1 s on Spark. Behind a union it would not be chained.
        """
        if isinstance(transformation, SinkTransformation) and len(read) > 1:
            return declared
        found = {self.nodes[output.node].parallelism for output in read}
        return found.pop() if len(found) == 1 and all(output.partitioner is None for output in read) else declared

    def _slot_sharing_group(self, transformation: Transformation, inputs: Sequence[NodeId]) -> str:
        if transformation.slot_sharing_group is not None:
            return transformation.slot_sharing_group
        groups = {self.nodes[node].slot_sharing_group for node in inputs}
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP

    def _edge(self, target: NodeId, input_index: int, output: _Output, *, keyed: bool) -> StreamEdge:
        source_node, target_node = self.nodes[output.node], self.nodes[target]
        same = source_node.parallelism == target_node.parallelism
        partitioner = output.partitioner
        if partitioner is None:
            partitioner = Partitioner(partitioning=Partitioning.FORWARD if same else Partitioning.REBALANCE)
        if partitioner.partitioning is Partitioning.FORWARD and not same:
            raise InvalidProgramError(
                f"forward() from {source_node.name!r} (parallelism {source_node.parallelism}) to {target_node.name!r} "
                f"(parallelism {target_node.parallelism}): a forward connection cannot change the parallelism",
                hint="use rebalance() or rescale(), or give both the same parallelism.",
            )
        if keyed and partitioner.partitioning is not Partitioning.HASH:
            raise InvalidProgramError(
                f"{target_node.name!r} is keyed, but what it reads from {source_node.name!r} is partitioned by "
                f"{partitioner.partitioning.value}",
                hint="call key_by() directly before it.",
            )
        return StreamEdge(
            source=output.node,
            target=target,
            input_index=input_index,
            partitioner=partitioner,
            side_output=output.side_output,
        )


def _without_watermarks(strategy: WatermarkStrategy) -> WatermarkStrategy:
    return replace(strategy, generator_supplier=NoWatermarksGenerator, idleness_ms=None)


def _is_unordered(node: StreamNode) -> bool:
    return isinstance(node.operator, SourceConfig) and isinstance(node.operator.source, Source) and node.operator.source.unordered


def is_endless(node: StreamNode) -> bool:
    """Return whether an operator is a source that does not end by itself."""
    return isinstance(node.operator, SourceConfig) and node.operator.source.boundedness is not Boundedness.BOUNDED


def _checked_max_parallelism(wanted: int, parallelism: int, name: str) -> int:
    if not 0 < wanted <= UPPER_BOUND_MAX_PARALLELISM:
        raise InvalidProgramError(
            f"the maximum parallelism of {name!r} must be between 1 and {UPPER_BOUND_MAX_PARALLELISM}; got {wanted}"
        )
    if parallelism > wanted:
        raise InvalidProgramError(
            f"the parallelism of {name!r} is {parallelism}, more than its maximum parallelism of {wanted}",
            hint="lower set_parallelism(), or raise set_max_parallelism(); the latter cannot change once there is state.",
        )
    return wanted
