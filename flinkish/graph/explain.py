"""Draws the graphs of a program as trees for people to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sized
from typing import Generic, TypeVar

from flinkish.graph.chaining import build_job_graph
from flinkish.graph.columns import working_on_columns
from flinkish.graph.execution_plan import ExecutionPlan, plan
from flinkish.graph.job_graph import JobGraph, JobVertex, VertexId
from flinkish.graph.stream_graph import NodeId, StreamGraph, StreamNode
from flinkish.graph.stream_graph_generator import generate
from flinkish.program.program import Program
from flinkish.program.transformations import Partitioner
from flinkish.udf.output_tag import OutputTag

K = TypeVar("K", bound=Hashable)


def explain_program(program: Program, engine_plan: Callable[[ExecutionPlan], str] | None = None) -> str:
    """Return all graphs of a program as text, one below the other; each is drawn from its sources down.

    `engine_plan` returns the text of the last part, such as Spark's plan.
    """
    stream_graph = generate(program)
    job_graph = build_job_graph(stream_graph)
    execution_plan = plan(job_graph)
    parts = [
        explain_stream_graph(stream_graph, working_on_columns(job_graph, batch=stream_graph.batch)),
        explain_job_graph(job_graph),
        explain_execution_plan(execution_plan),
    ]
    if engine_plan is not None:
        parts.append("== Engine plan ==\n" + engine_plan(execution_plan).rstrip())
    return "\n\n".join(parts) + "\n"


def explain_stream_graph(stream_graph: StreamGraph, reasons: Mapping[NodeId, str | None]) -> str:
    """Draw operators; `reasons` say why they work on records, see `working_on_columns`."""
    drawing = _Drawing(stream_graph.nodes, lambda node: _describe_node(stream_graph.nodes[node], reasons), "#{}".format)
    for edge in stream_graph.edges:
        drawing.connect(edge.source, edge.target, _describe_edge(edge.partitioner, edge.side_output))
    chaining = "" if stream_graph.chaining_enabled else ", chaining off"
    title = f"== StreamGraph of {stream_graph.job_name!r}: {_count(stream_graph.nodes, 'operator')}{chaining} =="
    return "\n".join([title, *drawing.lines()])


def explain_job_graph(job_graph: JobGraph) -> str:
    drawing = _Drawing(job_graph.vertices, lambda vertex: _describe_vertex(job_graph.vertices[vertex]), "vertex {}".format)
    for edge in job_graph.edges:
        drawing.connect(edge.source_vertex, edge.target_vertex, _describe_edge(edge.partitioner, edge.side_output))
    title = f"== JobGraph: {_count(job_graph.vertices, 'vertex', 'vertices')}, {_count(job_graph.edges, 'edge')} =="
    return "\n".join([title, *drawing.lines()])


def explain_execution_plan(execution_plan: ExecutionPlan) -> str:
    """Draw levels and slots."""
    job_graph, level_of = execution_plan.job_graph, execution_plan.level_of
    lines = [f"== ExecutionPlan: {_count(execution_plan.levels, 'level')}, {_number(execution_plan.slots, 'slot')} =="]
    for number, level in enumerate(execution_plan.levels):
        between = " (sources)" if number == 0 else " (behind an exchange)"
        lines.append(f"level {number}{between}")
        rows = [_describe_placement(execution_plan, vertex) for vertex in level]
        exchanges = [edge for edge in job_graph.edges if level_of[edge.source_vertex] == number < level_of[edge.target_vertex]]
        rows += [
            f"sends {_describe_edge(edge.partitioner, edge.side_output)}: vertex {edge.source_vertex} -> vertex "
            f"{edge.target_vertex} at level {level_of[edge.target_vertex]}"
            for edge in exchanges
        ]
        lines += [f"{'└─' if row is rows[-1] else '├─'} {row}" for row in rows]
    return "\n".join(lines)


class _Drawing(Generic[K]):
    """A graph drawn as a tree from its roots down.

    A node with several inputs is drawn below the first of them; below each other input there is only a reference to it.
    """

    def __init__(self, keys: Iterable[K], label: Callable[[K], str], reference: Callable[[K], str]) -> None:
        self._keys = list(keys)
        self._label = label
        self._reference = reference
        self._after: dict[K, list[tuple[K, str]]] = defaultdict(list)
        self._read: set[K] = set()

    def connect(self, source: K, target: K, how: str) -> None:
        self._after[source].append((target, how))
        self._read.add(target)

    def lines(self) -> list[str]:
        lines: list[str] = []
        drawn: set[K] = set()
        # A stack, not recursion: a chain may be longer than Python's stack is deep.
        stack: list[tuple[K, str, str, str]] = [(key, "", "", "") for key in reversed(self._keys) if key not in self._read]
        while stack:
            key, prefix, indent, how = stack.pop()
            if key in drawn:
                lines.append(f"{prefix}{how}-> {self._reference(key)}, see above")
                continue
            drawn.add(key)
            lines.append(f"{prefix}{how}{self._label(key)}")
            after = self._after[key]
            for position in range(len(after) - 1, -1, -1):
                target, target_how = after[position]
                last = position == len(after) - 1
                branch, rest = ("└─", "   ") if last else ("├─", "│  ")
                stack.append((target, f"{indent}{branch} ", indent + rest, f"[{target_how}] "))
        return lines


def _describe_node(node: StreamNode, reasons: Mapping[NodeId, str | None]) -> str:
    parts = [f"{node.name}  #{node.id}", f"parallelism {node.parallelism}"]
    parts += ["keyed"] if node.key_selectors else []
    parts += [f"group {node.slot_sharing_group}"] if node.slot_sharing_group != "default" else []
    parts.append(f"uid {node.uid}")
    if reasons:
        reason = reasons[node.id]
        parts.append("columns" if reason is None else f"records: {reason}")
    text = ", ".join(parts)
    return text if node.description == node.name else f"{text} ({node.description})"


def _describe_vertex(vertex: JobVertex) -> str:
    size = f"parallelism {vertex.parallelism}, max parallelism {vertex.max_parallelism}"
    return f"{vertex.name}  vertex {vertex.id}, {size}, {_count(vertex.operators, 'operator')}"


def _describe_placement(execution_plan: ExecutionPlan, vertex: VertexId) -> str:
    job_vertex = execution_plan.job_graph.vertices[vertex]
    first, last = execution_plan.slot_of(vertex, 0), execution_plan.slot_of(vertex, job_vertex.parallelism - 1)
    slots = f"slot {first}" if first == last else f"slots {first}-{last}"
    return f"{job_vertex.name}  vertex {vertex}, {slots}"


def _describe_edge(partitioner: Partitioner, side_output: OutputTag | None) -> str:
    text = partitioner.partitioning.value
    if side_output is not None:
        text += f", side output {side_output.tag_id!r}"
    return text


def _count(things: Sized, one: str, several: str | None = None) -> str:
    return _number(len(things), one, several)


def _number(number: int, one: str, several: str | None = None) -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"
