"""The first record of each key."""

from __future__ import annotations

from typing import Any

from flinkish.common.time import Time
from flinkish.common.typeinfo import Types
from flinkish.udf.functions import FilterFunction, RuntimeContext
from flinkish.udf.state import StateTtlConfig, ValueState, ValueStateDescriptor


class FirstOfKey(FilterFunction):
    """Passes the first record of each key, and again the first one after `ttl` milliseconds of processing time."""

    def __init__(self, ttl: int | None) -> None:
        self.ttl = ttl
        self.seen = ValueStateDescriptor("_seen", Types.BOOLEAN())
        if ttl is not None:
            self.seen.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(ttl)).build())

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state: ValueState[bool] = runtime_context.get_state(self.seen)

    def filter(self, value: Any) -> bool:
        if self._state.value():
            return False
        self._state.update(True)
        return True
