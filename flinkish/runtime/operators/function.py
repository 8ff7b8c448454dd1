"""The base class of operators that have a user function."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.elements import Records
from flinkish.runtime.operators import checkpointed
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.operators.runtime_context import TaskRuntimeContext
from flinkish.runtime.protocol import Barrier
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.functions import Function

ConfigT = TypeVar("ConfigT", bound=Any)


class FunctionOperator(Operator, Generic[ConfigT]):
    """Opens and closes a user function; gives it keyed state if the operator's input is keyed."""

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        self.config = cast("ConfigT", context.node.operator)
        self.function: Any = self.config.function
        self.backend: KeyedStateBackend | None = None
        if context.node.key_type is not None:
            self.backend = context.state.keyed_backend(
                context.node.key_type, context.max_parallelism, context.key_groups, context.time.now
            )
        self._opened = False

    def open(self) -> None:
        self._opened = True
        runtime_context = TaskRuntimeContext(self.context, self.backend)
        checkpointed.initialize_state(self.function, self.context, runtime_context)
        self.function.open(runtime_context)

    def close(self) -> None:
        if self._opened:
            self._opened = False
            self.function.close()

    def closes(self) -> bool:
        return self._opened and type(self.function).close is not Function.close

    def side_types(self) -> dict[str, TypeInformation | None]:
        """Return the declared types of the side outputs that are read."""
        return {tag.tag_id: tag.type_info for tag in self.context.side_outputs}

    def snapshot_state(self, barrier: Barrier) -> None:
        checkpointed.snapshot_state(self.function, barrier)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        checkpointed.notify_complete(self.function, checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        checkpointed.notify_aborted(self.function, checkpoint_id)

    def process_records(self, input_index: int, records: Records) -> None:
        backend = self.backend
        if backend is None:
            super().process_records(input_index, records)
            return
        process = self.process
        for value, timestamp, key in keyed(records):
            backend.current_key = key
            process(value, timestamp)


def keyed(records: Records) -> zip[tuple[Any, int | None, Any]]:
    """Return (value, timestamp, key) of each record of a keyed run."""
    values = records.values
    timestamps = records.timestamps if records.timestamps is not None else [None] * len(values)
    assert records.keys is not None
    return zip(values, timestamps, records.keys, strict=True)
