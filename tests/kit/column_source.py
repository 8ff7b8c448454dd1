"""A source that reads runs of records and watermarks as a script says, as columns or as records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flinkish.common.column_layout import Layout
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._sequences import FixedSplitsSource, SequentialReader
from flinkish.program.sources import Boundedness, ReaderOutput, SourceReaderContext, SourceSplit

#: A run of records, a watermark, or whether the split is idle.
Step = list[Any] | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsSplit(SourceSplit):
    script: int
    #: Number of steps that are done.
    position: int


@dataclass(frozen=True)
class RunsSource(FixedSplitsSource[Any, RunsSplit]):
    """Reads scripts, each as a split: a list is a run of records, an int a watermark, True says that the split is idle."""

    boundedness = Boundedness.BOUNDED
    split_type = RunsSplit
    emits_watermarks = True
    why_records = None

    type_info: TypeInformation
    scripts: tuple[tuple[Step, ...], ...]
    #: For each step of a script in turn, whether a run is emitted as columns.
    columns: tuple[bool, ...] = (True,)

    def splits(self, parallelism: int) -> list[RunsSplit]:
        return [RunsSplit(split_id=str(number), script=number, position=0) for number in range(len(self.scripts))]

    def create_reader(self, context: SourceReaderContext) -> RunsReader:
        return RunsReader(self)

    def produced_type(self) -> TypeInformation:
        return self.type_info


class RunsReader(SequentialReader[Any, RunsSplit]):
    def __init__(self, source: RunsSource) -> None:
        super().__init__()
        self._source = source
        self._layout = Layout(source.type_info)

    def _read(self, split: RunsSplit, output: ReaderOutput[Any]) -> None:
        output.select_split(split.split_id)
        script, position = self._source.scripts[split.script], split.position
        if position == len(script):
            self._finish(split, output)
            return
        match script[position]:
            case bool(idle):
                output.mark_idle() if idle else output.mark_active()
            case int(watermark):
                output.emit_watermark(watermark)
            case [*records] if output.wants_columns and self._source.columns[position % len(self._source.columns)]:
                output.collect_columns(self._layout.columns_of(records, None).batch)
            case [*records]:
                for record in records:
                    output.collect(record)
        self._update(replace(split, position=position + 1))
