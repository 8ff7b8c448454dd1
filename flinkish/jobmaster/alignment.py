"""Watermark alignment: sources of one group do not run ahead of the slowest of them by more than they allow.

Every epoch ends with the watermarks of all readers on the driver, so the groups are compared after each one and the limits go out
with the next command; within an epoch a reader stops by itself at its limit. Source: FLIP-182 (SourceCoordinator).
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkish.jobmaster.source_coordinator import EnumeratorCoordinator, SourceCoordinator


class AlignmentGroups:
    """The groups of a job; limits are set by `update`."""

    def __init__(self, sources: Iterable[SourceCoordinator]) -> None:
        self._groups: dict[str, list[EnumeratorCoordinator]] = {}
        for source in sources:
            if isinstance(source, EnumeratorCoordinator) and source.node.alignment is not None:
                self._groups.setdefault(source.node.alignment.group, []).append(source)

    def update(self) -> None:
        """Tell each source how far it may go: by its drift further than the least watermark of its group.

        Readers that are idle, have ended, have nothing to read or no watermark yet do not count; as long as that goes for all of
        a group there is no limit.
        """
        for sources in self._groups.values():
            least = min((watermark for source in sources for watermark in source.watermarks()), default=None)
            for source in sources:
                assert source.node.alignment is not None
                source.align(None if least is None else least + source.node.alignment.max_drift_ms)
