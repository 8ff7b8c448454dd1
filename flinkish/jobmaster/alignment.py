"""Watermark alignment: no source of a group runs ahead of the slowest one by more than its maximum drift.

After every epoch the driver has the watermarks of all readers. It computes the limits of each group and sends them with the next
command; within an epoch a reader stops by itself at its limit. Source: FLIP-182 (SourceCoordinator).
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkish.jobmaster.enumerator_coordinator import EnumeratorCoordinator
from flinkish.jobmaster.source_coordinator import SourceCoordinator


class AlignmentGroups:
    """The groups of a job; limits are set by `update`."""

    def __init__(self, sources: Iterable[SourceCoordinator]) -> None:
        self._groups: dict[str, list[EnumeratorCoordinator]] = {}
        for source in sources:
            if isinstance(source, EnumeratorCoordinator) and source.node.alignment is not None:
                self._groups.setdefault(source.node.alignment.group, []).append(source)

    def update(self) -> None:
        """Set the limit of each source: the least watermark of its group plus the source's maximum drift.

        Readers that are idle, have ended, have nothing to read or have no watermark yet are ignored. If this applies to all
        readers of a group, there is no limit.
        """
        for sources in self._groups.values():
            least = min((watermark for source in sources for watermark in source.watermarks()), default=None)
            for source in sources:
                assert source.node.alignment is not None
                source.align(None if least is None else least + source.node.alignment.max_drift_ms)
