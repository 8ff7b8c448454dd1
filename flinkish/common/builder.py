"""The base of builders."""

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
