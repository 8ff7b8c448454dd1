"""Savepoints read and written as data, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Configuration, Row, Types, WatermarkStrategy, pickling
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.functions import KeyedProcessFunction
from flinkish.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flinkish.state import (
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
)
from flinkish.testing import JobHarness
from tests.conftest import locally
from tests.kit.stateful import LONG, RULES, TEXT, build, savepoint_of, settings_of


def configuration(folder: Path) -> Configuration:
    return Configuration.from_dict({key: str(value) for key, value in settings_of(folder).items()})


def reader_of(path: str, folder: Path) -> SavepointReader:
    return SavepointReader.read(path, configuration(folder))


def test_a_job_goes_on_from_a_changed_savepoint_at_another_parallelism(engine: str, tmp_path: Path) -> None:
    saved = savepoint_of(tmp_path, [1, 2, 3, 4], engine=engine)
    writer = SavepointWriter.from_existing_savepoint(saved, configuration(tmp_path))
    writer.transform_state("everything", "total", lambda row: row.value * 10)
    writer.delete_keys("sessions", ["odd"])
    writer.transform_state("ruled", "rules", lambda row: 100)
    for operator in reader_of(saved, tmp_path).operators():
        writer.change_max_parallelism(operator.uid, 64)
    path = writer.write(str(tmp_path / "new"))

    settings = settings_of(tmp_path, **{"pipeline.max-parallelism": 64})
    with JobHarness(build, engine=engine, parallelism=3, settings=settings, savepoint=path, max_parallelism=64) as job:
        job.source("numbers").emit_all([5, 6])
        assert sorted(record.value for record in job.sink("everything").take_output()) == ["even=66", "odd=45"]
        assert sorted(record.value for record in job.sink("ruled").take_output()) == [205, 206]
        job.source("numbers").watermark(2_000_000)
        timers = sorted(record.value for record in job.sink("everything").take_output())
        assert timers == [*(f"even@{1_000_000 + n}" for n in (2, 4, 6)), *(f"odd@{1_000_000 + n}" for n in (1, 3, 5))]
        assert sorted(record.value for record in job.sink("sessions").take_output()) == [5, 12]


class Totals(KeyedStateBootstrapFunction):
    def open(self, store: Any) -> None:
        self.total = store.get_state(ValueStateDescriptor("total", LONG))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update(value["total"])
        ctx.timer_service().register_event_time_timer(9_000)


class Rules(StateBootstrapFunction):
    def open(self, store: Any) -> None:
        self.rules = store.get_broadcast_state(RULES)

    def process_element(self, value: Any) -> None:
        self.rules.put(value, 1_000)


@locally
def test_a_job_starts_from_a_savepoint_that_was_made_from_data(engine: str, tmp_path: Path) -> None:
    data = [{"name": "odd", "total": 1000}, {"name": "even", "total": 2000}]
    totals = OperatorTransformation.bootstrap_with(data).key_by(lambda row: row["name"], TEXT).transform(Totals())
    rules = OperatorTransformation.bootstrap_with(["rule"]).transform(Rules())
    writer = SavepointWriter.new_savepoint(configuration=configuration(tmp_path))
    path = writer.with_operator("everything", totals).with_operator("ruled", rules).write(str(tmp_path / "new"))

    with JobHarness(build, engine=engine, parallelism=2, settings=settings_of(tmp_path), savepoint=path) as job:
        job.source("numbers").emit_all([1, 2])
        assert sorted(record.value for record in job.sink("everything").take_output()) == ["even=2002", "odd=1001"]
        assert sorted(record.value for record in job.sink("ruled").take_output()) == [1001, 1002]
        job.source("numbers").watermark(10_000)
        assert sorted(record.value for record in job.sink("everything").take_output()) == ["even@9000", "odd@9000"]


class Orders(KeyedProcessFunction):
    """Keeps the last order and all prices; the orders have the fields that they have in its version of the program."""

    def __init__(self, names: list[str], price: Any) -> None:
        self.order_type = Types.ROW_NAMED(names, [price if name == "price" else LONG for name in names])
        self.price = price

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", self.order_type))
        self.prices = runtime_context.get_list_state(ListStateDescriptor("prices", self.price))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield f"{value}: {self.last.value()} {list(self.prices.get())}"
        fields = dict.fromkeys(self.order_type.get_field_names(), value)
        self.last.update(Row(**fields))
        self.prices.add(value)


def orders(names: list[str], price: Any) -> Callable[[StreamExecutionEnvironment, JobHarness], None]:
    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        numbers = env.from_source(job.source("numbers", LONG), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        shown = numbers.key_by(lambda number: number % 4, LONG).process(Orders(names, price), TEXT).uid("orders")
        shown.sink_to(job.sink("shown")).uid("shown")

    return program


@locally
def test_a_program_with_other_fields_and_wider_numbers_goes_on_from_a_savepoint(engine: str, tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with JobHarness(orders(["id", "price", "old"], Types.INT()), engine=engine, parallelism=2, settings=settings) as job:
        job.source("numbers").emit_all([0, 1, 2, 3])
        saved = job.stop(directory=str(tmp_path / "savepoints"))

    # In two steps: a field that is added when another one is removed might be its new name.
    added = orders(["id", "note", "price", "old"], Types.LONG())
    with JobHarness(added, engine=engine, parallelism=3, settings=settings, savepoint=saved) as job:
        job.source("numbers").emit_all([4, 5])
        shown = sorted(record.value for record in job.sink("shown").take_output())
        assert shown == ["4: Row(id=0, note=None, price=0, old=0) [0]", "5: Row(id=1, note=None, price=1, old=1) [1]"]
        saved = job.stop(directory=str(tmp_path / "savepoints"))
    # A state that no key has asked for is converted, too.
    with JobHarness(orders(["id", "note", "price"], Types.LONG()), engine=engine, settings=settings, savepoint=saved) as job:
        job.source("numbers").emit_all([8, 6])
        shown = sorted(record.value for record in job.sink("shown").take_output())
        assert shown == ["6: Row(id=2, note=None, price=2) [2]", "8: Row(id=4, note=4, price=4) [0, 4]"]


class Baskets(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.basket = runtime_context.get_state(ValueStateDescriptor("cart", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield repr(self.basket.value())


def test_pickled_values_of_a_renamed_class_are_found_by_its_alias(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickling, "_aliases", {})
    saved = savepoint_of(tmp_path, [1, 2], engine=engine)

    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        numbers = env.from_source(job.source("numbers", LONG), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        baskets = numbers.key_by(lambda number: "odd" if number % 2 else "even", TEXT).process(Baskets(), TEXT)
        baskets.uid("everything").sink_to(job.sink("baskets")).uid("everything-sink")

    settings = settings_of(
        tmp_path,
        **{
            "execution.state-recovery.class-aliases": "tests.kit.stateful.Cart:tests.kit.stateful.Basket",
            "execution.state-recovery.ignore-unclaimed-state": True,
        },
    )
    with JobHarness(program, engine=engine, parallelism=3, settings=settings, savepoint=saved) as job:
        job.source("numbers").emit_all([3])
        shown = [record.value for record in job.sink("baskets").take_output()]
    assert shown == ["Basket(owner='odd', total=1, currency='EUR')"]
