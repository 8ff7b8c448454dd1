"""The bases of builders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SettingsT = TypeVar("SettingsT", bound="DataclassInstance")


class SettingsBuilder(Generic[SettingsT]):
    """Keeps its settings in a frozen dataclass."""

    def __init__(self, settings: SettingsT) -> None:
        self._settings = settings

    def _set(self, **changes: Any) -> Self:
        self._settings = replace(self._settings, **changes)
        return self


class FieldsBuilder:
    """Collects the arguments of what it builds, by their names."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def _set(self, **fields: Any) -> Self:
        self._fields |= fields
        return self
