"""The interfaces of sources and sinks, in PyFlink's home; the layers below the API take them from `flinkish.program`."""

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
    Boundedness,
    DriverReader,
    DriverSource,
    InputStatus,
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
    "Boundedness",
    "CommitRequest",
    "Committer",
    "DeliveryGuarantee",
    "DriverReader",
    "DriverSource",
    "InputStatus",
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
        """Take a DataStream and return the one that the sink is to write."""


class SupportsPreprocessing(ABC):
    """A sink that changes the stream before it writes it; PyFlink's name. Any sink with such a method will do."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return what changes the stream; None: nothing."""
