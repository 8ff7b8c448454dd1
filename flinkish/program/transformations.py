"""The logical program, which the fluent methods record as plain frozen data.

A transformation names its inputs by id, so a setter such as `uid` replaces one entry in the environment's table and every
reference stays valid. Making transformations never runs anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NewType, Protocol

from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.program.operators import OperatorConfig
from flinkish.program.sinks import Sink
from flinkish.program.sources import AnySource, Source
from flinkish.udf.output_tag import OutputTag

TransformationId = NewType("TransformationId", int)


class ChainingStrategy(Enum):
    """Whether an operator may be chained; Flink's ChainingStrategy.

    ALWAYS: to its input and its outputs; HEAD: only its outputs may be chained to it; NEVER: neither.
    """

    ALWAYS = "ALWAYS"
    HEAD = "HEAD"
    NEVER = "NEVER"


class Partitioning(Enum):
    """How the records of an edge are distributed to the subtasks of the target; the values are Flink's ship strategies."""

    FORWARD = "FORWARD"
    HASH = "HASH"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    CUSTOM = "CUSTOM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioner:
    """The partitioning of an edge.

    `key_selector` is set for HASH and CUSTOM, `function` (key, number of subtasks) -> subtask for CUSTOM only.
    """

    partitioning: Partitioning
    key_selector: Callable[[Any], Any] | None = None
    function: Callable[[Any, int], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """Base of all transformations; None = not set by the user."""

    id: TransformationId
    name: str
    output_type: TypeInformation
    parallelism: int | None = None
    max_parallelism: int | None = None
    #: False for operators that can only run with one subtask, such as from_collection.
    can_be_parallel: bool = True
    uid: str | None = None
    uid_hash: str | None = None
    description: str | None = None
    slot_sharing_group: str | None = None
    chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS
    #: Whether it has the parallelism of what it reads, unless that is partitioned. For a sink, also unless that is a union.
    beside_input: bool = False
    #: `file:line` of the program, for error messages; None if flinkish itself made the transformation.
    made_at: str | None = None

    @property
    def inputs(self) -> tuple[TransformationId, ...]:
        """Ids of the transformations that this one reads."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryTransformation(Transformation):
    """Base of the transformations that read one other."""

    input: TransformationId

    @property
    def inputs(self) -> tuple[TransformationId, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTransformation(Transformation):
    """A source; `watermarks` is None if the program gave no watermark strategy, or no_watermarks()."""

    source: AnySource
    watermarks: WatermarkStrategy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneInputTransformation(UnaryTransformation):
    """An operator with one input; `key_selector` and `key_type` are set if the input is keyed."""

    operator: OperatorConfig
    key_selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoInputTransformation(Transformation):
    """An operator with two inputs: both are keyed, or only the first one if the second is broadcast, or none."""

    first_input: TransformationId
    second_input: TransformationId
    operator: OperatorConfig
    first_key_selector: Callable[[Any], Any] | None = None
    second_key_selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None

    @property
    def inputs(self) -> tuple[TransformationId, ...]:
        return (self.first_input, self.second_input)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTransformation(UnaryTransformation):
    sink: Sink[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionTransformation(Transformation):
    """The union of streams. Virtual: it adds no operator."""

    union_inputs: tuple[TransformationId, ...]

    @property
    def inputs(self) -> tuple[TransformationId, ...]:
        return self.union_inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTransformation(UnaryTransformation):
    """A change of the partitioning, such as HASH by key_by. Virtual: it sets the partitioner of the edges that read it."""

    partitioner: Partitioner


class RecordCache(Protocol):
    """The storage for the records of one cached stream."""

    def prepare(self, parent: Callable[[], Path]) -> None:
        """Create the storage below the folder that `parent` returns, unless it exists."""

    def sink(self) -> Sink[Any, Any]:
        """Return the sink that fills the cache."""

    def source(self, record_type: TypeInformation) -> Source[Any, Any, Any] | None:
        """Return the source that reads the cache; None if it is empty."""

    def clear(self) -> None:
        """Remove the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTransformation(UnaryTransformation):
    """Passes on its input and, in batch mode, writes the records to `cache`.

    An executed program contains it only while the cache is empty; otherwise it contains a source in its place.
    """

    cache: RecordCache


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutputTransformation(UnaryTransformation):
    """A side output. Virtual: the edges that read it carry the records that its input emits to the tag."""

    tag: OutputTag


#: Kinds that become no node of the stream graph: their readers read their inputs, with their partitioner or tag.
VIRTUAL = (PartitionTransformation, SideOutputTransformation, UnionTransformation)
