"""Slot sharing groups: which operators share task slots, and the resources of such slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, Self

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.arguments import check, instance_of, int_of, text_of
from flinkish.common.errors import InvalidArgumentError

__all__ = ["MemorySize", "SlotSharingGroup"]

_UNITS = ((1 << 40, "tb"), (1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"))


@total_ordering
class MemorySize:
    """An amount of memory.

        >>> str(MemorySize.of_mebi_bytes(64)), MemorySize(bytes_size=2048).get_kibi_bytes()
        ('64 mb', 2)

    Args:
        bytes_size: bytes, not negative.
    """

    get_java_memory_size = AbsentMember(JAVA_OBJECT)

    __slots__ = ("_bytes",)

    def __init__(self, j_memory_size: Any = None, bytes_size: int | None = None) -> None:
        if j_memory_size is not None:
            raise InvalidArgumentError(
                "there is no Java MemorySize to wrap in flinkish.", hint="use MemorySize(bytes_size=...) or of_mebi_bytes()."
            )
        self._bytes = int_of("bytes_size", bytes_size, minimum=0)

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return an amount given in MiB."""
        return MemorySize(bytes_size=mebi_bytes << 20)

    def get_bytes(self) -> int:
        """Return the amount in bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return the amount in KiB, rounded down."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """Return the amount in MiB, rounded down."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """Return the amount in GiB, rounded down."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """Return the amount in TiB, rounded down."""
        return self._bytes >> 40

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self, other: MemorySize) -> bool:
        return self._bytes < _memory_size(other)._bytes

    def __str__(self) -> str:
        for size, unit in _UNITS:
            if self._bytes and self._bytes % size == 0:
                return f"{self._bytes // size} {unit}"
        return f"{self._bytes} bytes"

    def __repr__(self) -> str:
        return f"MemorySize(bytes_size={self._bytes})"


def _memory_size(value: object) -> MemorySize:
    return instance_of("an amount of memory", value, MemorySize)


@dataclass(frozen=True, slots=True)
class SlotSharingGroup:
    """A group of operators that share slots, with the resources of each slot if they are given.

    Operators of different groups run in different slots, so the job needs more slots.

    Differs from Flink: the resources are stored, but not requested; Spark's own settings determine the size of executors.
    """

    get_java_slot_sharing_group = AbsentMember(JAVA_OBJECT)

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: Mapping[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """Return the name of the group."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Return the managed memory of a slot, None if not given."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the heap memory of a slot, None if not given."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the off-heap memory of a slot, None if not given."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Return the cores of a slot, None if not given."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Return the external resources of a slot, such as GPUs, by name."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Return a builder of a group with this name."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Builder of a SlotSharingGroup; cores and heap memory must both be given, or neither."""

        def __init__(self, name: str) -> None:
            self._name = text_of("the name of a slot sharing group", name)
            self._resources: dict[str, Any] = {}
            self._external_resources: dict[str, float] = {}

        def _set(self, resource: str, value: object) -> Self:
            self._resources[resource] = value
            return self

        def set_cpu_cores(self, cpu_cores: float) -> Self:
            """Set the cores of a slot, more than 0."""
            check(cpu_cores > 0, f"cpu_cores must be greater than 0; got {cpu_cores}.")
            return self._set("_cpu_cores", float(cpu_cores))

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> Self:
            """Set the heap memory of a slot, more than 0."""
            check(_memory_size(task_heap_memory).get_bytes() > 0, "task_heap_memory must be greater than 0.")
            return self._set("_task_heap_memory", task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> Self:
            """Set the heap memory of a slot in MiB, more than 0."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> Self:
            """Set the off-heap memory of a slot."""
            return self._set("_task_off_heap_memory", _memory_size(task_off_heap_memory))

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> Self:
            """Set the off-heap memory of a slot in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> Self:
            """Set the managed memory of a slot."""
            return self._set("_managed_memory", _memory_size(managed_memory))

        def set_managed_memory_mb(self, managed_memory_mb: int) -> Self:
            """Set the managed memory of a slot in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> Self:
            """Set how much of an external resource a slot needs."""
            self._external_resources[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group. Raises InvalidProgramError if resources are given without cores or heap memory."""
            if not self._resources and not self._external_resources:
                return SlotSharingGroup(self._name)
            check(
                {"_cpu_cores", "_task_heap_memory"} <= self._resources.keys(),
                f"slot sharing group {self._name!r} needs both cpu cores and task heap memory, as it names resources.",
                hint="call set_cpu_cores() and set_task_heap_memory_mb(), or leave out all resources.",
            )
            nothing = MemorySize(bytes_size=0)
            resources = {"_task_off_heap_memory": nothing, "_managed_memory": nothing, **self._resources}
            return SlotSharingGroup(self._name, **resources, _external_resources=dict(self._external_resources))
