"""PyFlink's names for merging small files; not supported yet, so that a program that asks for it is told when it is built."""

from __future__ import annotations

from typing import Any, NoReturn

from flinkish.common.errors import UnsupportedError


def compaction_unsupported(*_: Any, **__: Any) -> NoReturn:
    """Raise UnsupportedError."""
    raise UnsupportedError(
        "FileSink does not merge small files",
        hint="a longer checkpoint interval makes fewer and larger files; or write to a DeltaSink and run OPTIMIZE on its table.",
    )


class FileCompactStrategy:
    """When small files are merged. Not supported."""

    @staticmethod
    def builder() -> NoReturn:
        """Raise UnsupportedError."""
        compaction_unsupported()


class FileCompactor:
    """How small files are merged. Not supported."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> NoReturn:
        """Raise UnsupportedError."""
        compaction_unsupported()

    @staticmethod
    def identical_file_compactor() -> NoReturn:
        """Raise UnsupportedError."""
        compaction_unsupported()
