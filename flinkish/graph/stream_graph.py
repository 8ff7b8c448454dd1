"""The stream graph: one node for each operator, one edge for each connection; virtual transformations are resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NewType

from flinkish.common.ids import OperatorUid
from flinkish.common.typeinfo import TypeInformation
from flinkish.program.operators import OperatorConfig
from flinkish.program.transformations import ChainingStrategy, Partitioner
from flinkish.udf.output_tag import OutputTag

NodeId = NewType("NodeId", int)

#: The slot sharing group of operators that name none.
DEFAULT_SLOT_SHARING_GROUP = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNode:
    """An operator.

    `key_selectors` has one entry for each keyed input, so it is empty if the operator is not keyed.
    """

    id: NodeId
    name: str
    description: str
    operator: OperatorConfig
    uid: OperatorUid
    parallelism: int
    max_parallelism: int
    #: Whether the program sets no maximum parallelism, so that a restored checkpoint may change it.
    max_parallelism_is_default: bool = False
    slot_sharing_group: str
    chaining_strategy: ChainingStrategy
    input_types: tuple[TypeInformation, ...]
    output_type: TypeInformation
    key_selectors: tuple[Callable[[Any], Any], ...] = ()
    key_type: TypeInformation | None = None
    #: The `file:line` of the program that made the operator, for error messages.
    made_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEdge:
    """A connection to input `input_index` (0 or 1) of the target. `side_output` is None for the main output."""

    source: NodeId
    target: NodeId
    input_index: int
    partitioner: Partitioner
    side_output: OutputTag | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGraph:
    """Nodes in topological order."""

    job_name: str
    nodes: Mapping[NodeId, StreamNode]
    edges: tuple[StreamEdge, ...]
    chaining_enabled: bool
    #: Whether the program runs in batch mode.
    batch: bool = False
    #: pipeline.operator-chaining.chain-operators-with-different-max-parallelism
    chain_different_max_parallelism: bool = True
