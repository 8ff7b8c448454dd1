"""Writes savepoints: from nothing, or as changed copies of others."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from flinkish.checkpoint import paths
from flinkish.checkpoint.manifest import CheckpointKind, CoordinatorState, Manifest, OperatorShape
from flinkish.checkpoint.savepoints import own_versions, write_savepoint
from flinkish.checkpoint.signing import SigningKey
from flinkish.common import options
from flinkish.common.arguments import int_of
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.config_file import load_configuration
from flinkish.common.configuration import Configuration
from flinkish.common.conversion import same, state_converter
from flinkish.common.errors import CheckpointError, ConfigurationError, CorruptCheckpointError, InvalidArgumentError
from flinkish.common.files import store_settings
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import AttemptId, CheckpointId, Generation, LineageId, OperatorUid, random_id
from flinkish.common.limits import UPPER_BOUND_MAX_PARALLELISM
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.graph.stream_graph_generator import DEFAULT_MAX_PARALLELISM
from flinkish.runtime.keys import as_key
from flinkish.runtime.protocol import Barrier, StateFile
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.backend import SnapshotFiles
from flinkish.runtime.state.codec import Codec, Opaque
from flinkish.runtime.state.columns import encode_all, join_list, json_column, json_of, key_groups_of
from flinkish.runtime.state.heap.backend import HeapBackend
from flinkish.runtime.state.level_state import LevelState
from flinkish.runtime.state.restore import TRUSTED, RestoredRows, category_of, merged_parts, parts_of_file
from flinkish.runtime.state.snapshot import Columns, SnapshotWriter
from flinkish.runtime.state.tables import StateAddress
from flinkish.state.bootstrap import BootstrapTransformation
from flinkish.state.decoding import StateDecoder, declared_types
from flinkish.state.reader import SavepointReader

#: Gets a row of a state, as `SavepointReader` returns it; returns the new value, or REMOVE.
Change = Callable[[Any], Any]


class _Remove(Enum):
    REMOVE = "remove"


#: What the function of `SavepointWriter.transform_state` returns for a value that is to be removed.
REMOVE: Final = _Remove.REMOVE
_COLUMNS = ("key_group", "key", "key_json", "namespace", "namespace_json", "user_key", "user_key_json", "value", "value_json")


class SavepointWriter:
    """Writes a savepoint that a job can start from, at any parallelism, on both engines. Changes are made by `write`.

    The savepoint is signed by our key, as each that a job takes. Pickled values are copied as they are, undecoded, unless the
    base is read with `unpickle`.
    """

    def __init__(self, base: SavepointReader | None, configuration: Configuration, max_parallelism: int, clock: Clock) -> None:
        """Create a writer; users call `new_savepoint` or `from_existing_savepoint`."""
        #: What is changed; None for a new savepoint.
        self.base = base
        self._configuration = configuration
        self._max_parallelism = max_parallelism
        self._clock = clock
        self._added: dict[str, tuple[BootstrapTransformation, str]] = {}
        self._removed: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._changes: dict[tuple[str, str], list[Change]] = {}
        self._deleted: dict[str, list[Callable[[Any], bool]]] = {}
        self._key_groups: dict[str, int] = {}
        #: The keys to delete that were not found yet.
        self._missing: dict[str, dict[Any, Any]] = {}

    @staticmethod
    def new_savepoint(
        max_parallelism: int = DEFAULT_MAX_PARALLELISM, configuration: Configuration | None = None
    ) -> SavepointWriter:
        """Begin with an empty savepoint, for operators with this maximum parallelism."""
        return SavepointWriter(None, configuration or _loaded(), _checked(max_parallelism), SystemClock())

    @staticmethod
    def from_existing_savepoint(
        path: str, configuration: Configuration | None = None, *, unpickle: bool = False
    ) -> SavepointWriter:
        """Begin with a savepoint or checkpoint, which is not changed; see `SavepointReader.read` for the arguments.

        Operators that are added get the maximum parallelism of its first operator.
        """
        configuration = configuration or _loaded()
        reader = SavepointReader.read(path, configuration, unpickle=unpickle)
        recorded = [each.max_parallelism for each in reader.operators()]
        return SavepointWriter(reader, configuration, recorded[0] if recorded else DEFAULT_MAX_PARALLELISM, SystemClock())

    # -- changes -----------------------------------------------------------------------------------------------------------

    def with_operator(self, uid: str, transformation: BootstrapTransformation, *, name: str | None = None) -> SavepointWriter:
        """Add the state of an operator that is made from data. To replace an operator, remove it first."""
        if uid in self._added or (uid in self._uids() and uid not in self._removed):
            raise InvalidArgumentError(f"there is an operator with the uid {uid!r} already", hint="remove_operator() first.")
        self._added[uid] = transformation, name or uid
        return self

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leave out an operator: its state, its position if it is a source, and the output that a sink has yet to commit."""
        self._removed.add(self._known(uid))
        return self

    def change_operator_identifier(self, uid: str, new_uid: str) -> SavepointWriter:
        """Give an operator another uid."""
        if new_uid in {*self._uids(), *self._added, *self._renamed.values()}:
            raise InvalidArgumentError(f"there is an operator with the uid {new_uid!r} already")
        self._renamed[self._known(uid)] = new_uid
        return self

    def transform_state(self, uid: str, name: str, function: Change) -> SavepointWriter:
        """Change the values of a state: `function` gets each row and returns the new value, or REMOVE.

        The rows are those of `SavepointReader`: `row.key`, `row.map_key`, `row.value`; the value of a list state is a list.
        None in place of a value is refused when the savepoint is written: a function without a return statement returns it.
        """
        known = [each.name for each in self._reader().states(self._known(uid)) if each.kind != tables.TIMERS]
        if name not in known:
            raise InvalidArgumentError(f"operator {uid} has no state {name!r} with values", hint=f"it has {', '.join(known)}.")
        self._changes.setdefault((uid, name), []).append(function)
        return self

    def delete_keys(self, uid: str, keys: Collection[Any] | Callable[[Any], bool]) -> SavepointWriter:
        """Remove all state and all timers of some keys of an operator; of all keys for which a function returns True.

        A given key that is not there is refused when the savepoint is written.
        """
        self._deleted.setdefault(self._known(uid), []).append(keys if callable(keys) else self._is_one_of(uid, keys))
        return self

    def _is_one_of(self, uid: str, keys: Collection[Any]) -> Callable[[Any], bool]:
        missing = self._missing.setdefault(uid, {})
        wanted = {as_key(key): key for key in keys}
        missing.update(wanted)

        def is_wanted(key: Any) -> bool:
            found = as_key(key)
            missing.pop(found, None)
            return found in wanted

        return is_wanted

    def change_max_parallelism(self, uid: str, max_parallelism: int) -> SavepointWriter:
        """Distribute the keyed state of an operator to another number of key groups.

        Do so for all operators of a program that get their maximum parallelism from `set_max_parallelism`.
        """
        self._key_groups[self._known(uid)] = _checked(max_parallelism)
        return self

    def _reader(self) -> SavepointReader:
        if self.base is None:
            raise InvalidArgumentError("a new savepoint has no operators that could be changed", hint="use with_operator().")
        return self.base

    def _uids(self) -> set[str]:
        return set() if self.base is None else {each.uid for each in self.base.operators()}

    def _known(self, uid: str) -> str:
        if uid not in self._uids():
            self._reader().rows_of(uid)  # raises an error that names the operators
        return uid

    # -- writing -----------------------------------------------------------------------------------------------------------

    def write(self, path: str) -> str:
        """Write the savepoint to a folder, which must not exist, and return its path.

        If this fails, nothing is left there. Raises ConfigurationError if the folder exists or cannot be used, and
        TypeMismatchError for a value that is not of the declared type of its state.
        """
        store_settings.use_to_build(self._configuration)
        key = SigningKey.load(self._configuration.get(options.CHECKPOINT_HMAC_KEY_FILE))
        files = files_at(paths.table_root(path, key="savepoint path"))
        if files.is_folder():
            raise ConfigurationError(f"savepoint path = {path!r}: there is such a folder already", hint="give another path.")
        files.make_root(sync=True)
        try:
            base = self._base_manifest()
            folder = paths.folder_name(base.checkpoint_id, base.generation)
            files.make_folder(folder)
            barrier = Barrier(
                checkpoint_id=base.checkpoint_id,
                timestamp=self._clock.wall_time(),
                directory=str(files.root / folder),
                root=str(files.root),
            )
            written = (*self._rewritten(barrier), *self._bootstrapped(barrier))
            for uid, missing in self._missing.items():
                if missing:
                    raise InvalidArgumentError(
                        f"operator {uid} has no state and no timer of the key {next(iter(missing.values()))!r}"
                    )
            for inside in (*(file.path for file in written), folder, ""):
                files.sync(inside)
            write_savepoint(files, self._manifest(base, written), key, durable=True, time=self._clock.wall_time())
        except BaseException:
            files.remove_all()
            raise
        return str(files.root)

    def _base_manifest(self) -> Manifest:
        if self.base is not None:
            return self.base.checkpoint.manifest
        return Manifest(
            job_id=random_id(),
            lineage=LineageId(random_id()),
            generation=Generation(1),
            checkpoint_id=CheckpointId(1),
            kind=CheckpointKind.SAVEPOINT,
            trigger_time=self._clock.wall_time(),
            completion_time=self._clock.wall_time(),
            coordinator=CoordinatorState(job_name="", sources=(), operators=()),
            committables=(),
            files=(),
        )

    def _manifest(self, base: Manifest, files: tuple[StateFile, ...]) -> Manifest:
        """Return the manifest of the changed savepoint.

        Its job, lineage and id are those of the base: a sink that has committed the output of that does not commit it again.
        """
        coordinator = base.coordinator

        def uid(before: OperatorUid) -> OperatorUid:
            return OperatorUid(self._renamed.get(before, before))

        shapes = [
            dataclasses.replace(
                shape, uid=uid(shape.uid), max_parallelism=self._key_groups.get(str(shape.uid), shape.max_parallelism)
            )
            for shape in coordinator.operators
            if shape.uid not in self._removed
        ]
        for added, (_, name) in self._added.items():
            kind = "a function"
            shapes.append(
                OperatorShape(uid=OperatorUid(added), name=name, parallelism=1, max_parallelism=self._max_parallelism, kind=kind)
            )
        return dataclasses.replace(
            base,
            kind=CheckpointKind.SAVEPOINT,
            completion_time=self._clock.wall_time(),
            coordinator=dataclasses.replace(
                coordinator,
                operators=tuple(shapes),
                sources=tuple(
                    dataclasses.replace(source, uid=uid(source.uid))
                    for source in coordinator.sources
                    if source.uid not in self._removed
                ),
            ),
            committables=tuple(
                dataclasses.replace(each, operator_uid=uid(each.operator_uid))
                for each in base.committables
                if each.operator_uid not in self._removed
            ),
            files=files,
            previous=(),
            written_by=own_versions(),
        )

    # -- bootstrapped operators --------------------------------------------------------------------------------------------

    def _bootstrapped(self, barrier: Barrier) -> Iterator[StateFile]:
        for number, (uid, (transformation, _)) in enumerate(self._added.items()):
            state = self._empty_state()
            transformation.fill(state.operator(uid), self._max_parallelism, self._clock.wall_time)
            # All belongs to subtask 0: a restore distributes it, and its broadcast state is the one that all get.
            yield from state.snapshot([OperatorUid(uid)], barrier, vertex=number, subtask=0)()

    def _empty_state(self) -> LevelState:
        """Return state that is made durable by a snapshot only, so that its folder is never used."""
        return LevelState(
            None,
            attempt_id=AttemptId(random_id()),
            slot=0,
            level=0,
            scratch=Path(os.devnull),
            ids=random_id,
            backend=HeapBackend(),
        )

    # -- operators of the base ---------------------------------------------------------------------------------------------

    def _rewritten(self, barrier: Barrier) -> Iterator[StateFile]:
        """Copy the files of the base one by one, those of an incremental checkpoint as one, with the changes of their rows."""
        if self.base is None:
            return
        restore = self.base.checkpoint.to_restore()
        if len({file.checkpoint_id for file in restore.files}) > 1:
            copies = [merged_parts(restore)]
        else:
            copies = [parts_of_file(restore, file) for file in restore.files]
        for number, parts in enumerate(copies):
            name = f"state-{barrier.checkpoint_id}-{number}-{random_id()}"
            with SnapshotWriter(SnapshotFiles(barrier=barrier, name=name), 0) as writer:
                declared: dict[StateAddress, rows.Declaration] = {}
                for part in parts:
                    self._copy(*part, declared, writer)
                yield from writer.finish()

    def _copy(
        self,
        uid: str,
        name: str,
        kind: str,
        table: pa.Table,
        declared: dict[StateAddress, rows.Declaration],
        writer: SnapshotWriter,
    ) -> None:
        if uid in self._removed:
            return
        if kind == rows.SCHEMA:
            for data in table["value"].to_pylist():
                own = self._declared(uid, rows.Declaration.decode(data))
                declared[uid, category_of(own.kind), name] = own
                writer.declare(self._renamed.get(uid, uid), name, own)
            return
        declaration = declared.get((uid, category_of(kind), name))
        if declaration is None:
            raise CorruptCheckpointError(f"state {name!r} of operator {uid} has rows but no schema row")
        columns = self._changed(uid, name, kind, table, declaration)
        if columns is not None:
            writer.write(self._renamed.get(uid, uid), name, kind, columns)

    def _declared(self, uid: str, declaration: rows.Declaration) -> rows.Declaration:
        assert self.base is not None
        keyed = category_of(declaration.kind) != "operator"
        return msgspec.structs.replace(
            declaration,
            # Our signature must not make values trusted that another key has signed.
            trusted=declaration.trusted and self.base.checkpoint.trusted,
            max_parallelism=self._key_groups.get(uid, declaration.max_parallelism) if keyed else declaration.max_parallelism,
        )

    def _changed(self, uid: str, name: str, kind: str, table: pa.Table, declaration: rows.Declaration) -> Columns | None:
        """Return the columns of some rows after all changes; None if no rows are left."""
        keyed = category_of(kind) != "operator"
        changes = self._changes.get((uid, name), ())
        deleted = self._deleted.get(uid, ()) if keyed else ()
        groups = self._key_groups.get(uid) if keyed else None
        if deleted or groups is not None:
            table = self._with_keys(uid, name, table, declaration, deleted, groups)
        for change in changes:
            table = self._with_values(uid, name, kind, table, declaration, change)
        return {column: table[column].combine_chunks() for column in _COLUMNS} if len(table) else None

    def _with_keys(
        self,
        uid: str,
        name: str,
        table: pa.Table,
        declaration: rows.Declaration,
        deleted: Collection[Callable[[Any], bool]],
        groups: int | None,
    ) -> pa.Table:
        key_type, _ = declared_types(declaration, f"state {name!r} of operator {uid}")
        assert key_type is not None
        assert self.base is not None
        codec = Codec(key_type, trusted=declaration.trusted, opaque=not self.base.unpickle)
        keys = list(map(codec.decode, table["key"].to_pylist()))
        if deleted:
            kept = [not any(delete(key) for delete in deleted) for key in keys]
            table = table.filter(pa.array(kept, pa.bool_()))
            keys = [key for key, keep in zip(keys, kept, strict=True) if keep]
        if groups is None:
            return table
        if Opaque in set(map(type, keys)):
            raise CheckpointError(
                f"the keys of operator {uid} are pickled, so their key groups are not known without its program",
                hint="from_existing_savepoint(path, unpickle=True), in a program that has the classes of the keys.",
            )
        position = table.schema.get_field_index("key_group")
        return table.set_column(position, "key_group", key_groups_of(list(map(as_key, keys)), groups))

    def _with_values(
        self, uid: str, name: str, kind: str, table: pa.Table, declaration: rows.Declaration, change: Change
    ) -> pa.Table:
        assert self.base is not None
        what = f"state {name!r} of operator {uid}"
        marked = table.append_column(TRUSTED, pa.repeat(pa.scalar(declaration.trusted), len(table)))
        found = list(StateDecoder(RestoredRows(declaration, {kind: marked}), what, unpickle=self.base.unpickle).table())
        values = list(map(change, found))
        for row, value in zip(found, values, strict=True):
            if value is None and row["value"] is not None:
                raise InvalidArgumentError(
                    f"{what}: the function returned None for {row!r}", hint="return the value, or flinkish.state.REMOVE."
                )
        kept = [value is not REMOVE for value in values]
        stamps = [row["last_used"] for row, keep in zip(found, kept, strict=True) if keep] if declaration.ttl else None
        type_info = declared_types(declaration, what)[1][-1]
        encode = _encoded_lists if kind == tables.LIST else _encoded_values
        with tables.naming((uid, "", name)):
            columns = encode(type_info, [value for value in values if value is not REMOVE], stamps)
        table = table.filter(pa.array(kept, pa.bool_()))
        for column, changed in zip(("value", "value_json"), columns, strict=True):
            table = table.set_column(table.schema.get_field_index(column), column, changed)
        return table


def _encoded_values(type_info: TypeInformation, values: list[Any], stamps: list[int] | None) -> tuple[pa.Array, pa.Array]:
    """Return values encoded and as JSON, with the times of their last use if the state has a time-to-live."""
    codec = Codec(type_info, ttl=stamps is not None)
    converted = list(map(state_converter(type_info) or same, values))
    if stamps is not None:
        converted = list(zip(stamps, converted, strict=True))
    encoded = encode_all(codec, converted, frozen=False)
    return encoded, json_column(codec, encoded)


def _encoded_lists(
    type_info: TypeInformation, lists: list[list[Any]], stamps: list[list[int]] | None
) -> tuple[pa.Array, pa.Array]:
    """Return lists as `_encoded_values` returns values; new elements were last used when the last old one was."""
    codec, of_list = Codec(type_info, ttl=stamps is not None), Codec(Types.LIST(type_info))
    convert = state_converter(type_info) or same
    converted = [list(map(convert, elements)) for elements in lists]
    if stamps is not None:
        converted = [
            list(zip((own + own[-1:] * len(elements))[: len(elements)], elements, strict=True))
            for own, elements in zip(stamps, converted, strict=True)
        ]
    encoded = pa.array([join_list(list(map(codec.encode, elements))) for elements in converted], pa.large_binary())
    return encoded, pa.array([None if stamps is not None else json_of(of_list, each) for each in encoded.to_pylist()])


def _loaded() -> Configuration:
    return load_configuration(environment=os.environ)


def _checked(max_parallelism: int) -> int:
    return int_of("the maximum parallelism", max_parallelism, minimum=1, maximum=UPPER_BOUND_MAX_PARALLELISM)
