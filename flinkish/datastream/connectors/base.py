"""The interfaces of sources and sinks, in PyFlink's module; the layers below the API import them from `flinkish.program`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkish.program.sinks import (
    END_OF_INPUT_CHECKPOINT,
    CommitRequest,
    Committer,
    DeliveryGuarantee,
    RestoredCheckpoint,
    Sink,
    SinkWriter,
    SinkWriterContext,
    WriteContext,
)
from flinkish.program.sources import (
    BaseSource,
    Boundedness,
    DriverReader,
    DriverSource,
    InputStatus,
    NativeSource,
    ReaderOutput,
    SideOutputRecord,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)

__all__ = [
    "END_OF_INPUT_CHECKPOINT",
    "BaseSource",
    "Boundedness",
    "CommitRequest",
    "Committer",
    "DeliveryGuarantee",
    "DriverReader",
    "DriverSource",
    "InputStatus",
    "NativeSource",
    "ReaderOutput",
    "RestoredCheckpoint",
    "SideOutputRecord",
    "Sink",
    "SinkWriter",
    "SinkWriterContext",
    "Source",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "StreamTransformer",
    "SupportsPreprocessing",
    "WriteContext",
]


class StreamTransformer(ABC):
    """Changes the stream before a sink that SupportsPreprocessing; PyFlink's name."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the DataStream that the sink writes, made from the given one."""


class SupportsPreprocessing(ABC):
    """A sink that changes the stream before it writes it; PyFlink's name. Any sink with this method is treated as one."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return the transformer of the stream; None = the stream is not changed."""
