"""What may be a key, and reduce, sum, min, max, min_by, max_by of all kinds of records."""

import datetime
from decimal import Decimal

from flinkish.common import Row, Types
from flinkish.datastream import KeyedProcessFunction, KeySelector
from flinkish.datastream.state import ValueStateDescriptor
from tests.compatibility.kit import case


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield repr(value), repr(ctx.get_current_key()), self.count.value()


def itself(value):
    return value


def counted(env, records, key_type=None, select=itself):
    return env.from_collection(records).key_by(select, key_type).process(Count())


# -- keys ------------------------------------------------------------------------------------------------------------------------


@case()
def numbers_of_several_kinds(env):
    return counted(env, [1, 1.0, True, "1", 2])


@case()
def none(env):
    return counted(env, [None, 1, None])


@case()
def lists(env):
    return counted(env, [[1], [1], [2]])


@case()
def dicts(env):
    return counted(env, [{"a": 1}, {"a": 1}, {"b": 1}])


@case()
def tuples(env):
    return counted(env, [(1, "a"), (1, "a"), (2, "a")])


@case()
def tuples_that_hold_lists(env):
    return counted(env, [((1,), [2]), ((1,), [2])])


@case()
def rows(env):
    return counted(env, [Row(1, "a"), Row(1, "a"), Row(2, "a")])


@case()
def rows_with_names(env):
    return counted(env, [Row(a=1), Row(a=1), Row(a=2)])


@case()
def bytes_and_dates(env):
    return counted(env, [b"a", b"a", datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)])


@case()
def decimals_and_sets(env):
    return counted(env, [Decimal("1.5"), Decimal("1.5"), frozenset([1]), frozenset([1])])


@case()
def not_a_number(env):
    return counted(env, [float("nan"), float("nan")])


@case()
def texts_by_type(env):
    return counted(env, ["a", "b", "a"], Types.STRING())


@case()
def tuples_by_type(env):
    return counted(env, [(1, "a"), (1, "a")], Types.TUPLE([Types.LONG(), Types.STRING()]))


@case()
def rows_by_type(env):
    return counted(env, [(1, "a"), (1, "a")], Types.ROW([Types.LONG(), Types.STRING()]), lambda pair: Row(*pair))


@case()
def rows_with_names_by_type(env):
    key_type = Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.STRING()])
    return counted(env, [(1, "a"), (1, "a")], key_type, lambda pair: Row(x=pair[0], y=pair[1]))


@case()
def lists_by_type(env):
    return counted(env, [[1], [1]], Types.LIST(Types.LONG()))


@case()
def dates_by_type(env):
    return counted(env, [datetime.date(2020, 1, 1)] * 2, Types.SQL_DATE())


@case()
def booleans_by_type(env):
    return counted(env, [True, False, True], Types.BOOLEAN())


@case()
def keys_that_are_not_of_their_type(env):
    return counted(env, ["a", "b"], Types.LONG())


class Initial(KeySelector):
    def get_key(self, value):
        return value[0]


@case()
def a_selector_object(env):
    return counted(env, ["ab", "ac", "b"], None, Initial())


@case()
def key_by_again(env):
    return env.from_collection([("a", 1), ("a", 2), ("b", 1)]).key_by(lambda v: v[0]).key_by(lambda v: v[1]).process(Count())


@case()
def records_of_a_keyed_stream(env):
    pairs = Types.TUPLE([Types.STRING(), Types.LONG()])
    return env.from_collection([("a", 1), ("b", 2)], pairs).key_by(lambda pair: pair[0], Types.STRING())


class Seen(KeyedProcessFunction):
    def __init__(self):
        self.seen = []

    def process_element(self, value, ctx):
        self.seen.append(value)
        yield list(self.seen)


@case()
def attributes_are_shared_by_all_keys(env):
    return env.from_collection(["a", "b", "a"]).key_by(itself).process(Seen())


# -- aggregations ----------------------------------------------------------------------------------------------------------------

RECORDS = [("a", 3, 1), ("b", 9, 9), ("a", 1, 2), ("a", 3, 3), ("a", 1, 4), ("b", 2, 7), ("a", 5, 0)]


def tuple_type():
    return Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


def row_type():
    return Types.ROW_NAMED(["k", "x", "y"], [Types.STRING(), Types.LONG(), Types.LONG()])


def first(record):
    return record[0]


def keyed(env, type_info=None, records=RECORDS):
    return env.from_collection(records, type_info).key_by(first, Types.STRING())


@case()
def sum_of_tuples(env):
    return keyed(env, tuple_type()).sum(1)


@case()
def min_of_tuples(env):
    return keyed(env, tuple_type()).min(1)


@case()
def max_of_tuples(env):
    return keyed(env, tuple_type()).max(1)


@case()
def min_by_of_tuples(env):
    return keyed(env, tuple_type()).min_by(1)


@case()
def max_by_of_tuples(env):
    return keyed(env, tuple_type()).max_by(1)


@case()
def sum_of_rows(env):
    return keyed(env, row_type()).sum("x")


@case()
def min_of_rows(env):
    return keyed(env, row_type()).min("x")


@case()
def max_by_of_rows(env):
    return keyed(env, row_type()).max_by("x")


@case()
def sum_of_untyped_tuples(env):
    return keyed(env).sum(1)


@case()
def min_by_of_untyped_tuples(env):
    return keyed(env).min_by(1)


@case()
def max_of_lists(env):
    return keyed(env, None, [["a", 3], ["a", 1], ["a", 4]]).max(1)


@case()
def sum_by_a_position_from_the_end(env):
    return keyed(env, tuple_type()).sum(-1)


@case()
def scalars(env):
    return env.from_collection([3, 1, 4, 1, 5], Types.INT()).key_by(lambda number: number % 2).sum()


@case()
def the_greatest_text(env):
    return env.from_collection(["b", "a", "c"], Types.STRING()).key_by(lambda text: 0).max()


@case()
def the_sum_of_texts(env):
    return env.from_collection(["b", "a", "c"], Types.STRING()).key_by(lambda text: 0).sum()


@case()
def a_name_for_a_field_of_tuples(env):
    return keyed(env, tuple_type()).sum("x")


@case()
def a_name_that_is_not_there(env):
    return keyed(env, row_type()).sum("zz")


@case()
def a_position_that_is_not_there(env):
    return keyed(env, tuple_type()).sum(7)


@case()
def a_position_that_is_no_position(env):
    return keyed(env, tuple_type()).sum(1.0)


@case()
def a_position_of_scalars(env):
    return env.from_collection([3, 1], Types.INT()).key_by(lambda number: 0).sum(1)


@case()
def fields_that_are_none(env):
    return keyed(env, Types.ROW([Types.STRING(), Types.LONG()]), [Row("a", None), Row("a", 1)]).max(1)


@case()
def a_sum_that_is_too_large(env):
    return keyed(env, Types.TUPLE([Types.STRING(), Types.INT()]), [("a", 2**31 - 1), ("a", 1)]).sum(1)


@case()
def reduce(env):
    return keyed(env, tuple_type()).reduce(lambda a, b: (a[0], a[1] + b[1], a[2]))


@case()
def reduce_to_another_type(env):
    return keyed(env, tuple_type()).reduce(lambda a, b: "text")


@case()
def reduce_to_zero(env):
    return env.from_collection([0, 0, 3, 0]).key_by(lambda number: 0).reduce(lambda a, b: a * b)


@case()
def the_types_of_keyed_streams(env):
    typed = env.from_collection(RECORDS, tuple_type())
    streams = typed.key_by(first, Types.STRING()), env.from_collection(RECORDS).key_by(first), typed.key_by(first).sum(1)
    names = [str(stream.get_type()) for stream in streams]
    return env.from_collection(names)


@case()
def the_names_of_operators(env):
    stream = env.from_collection([1], Types.INT())
    keyed = stream.key_by(itself)
    made = (
        stream,
        stream.map(str),
        stream.flat_map(lambda number: [number]),
        stream.filter(bool),
        keyed.reduce(max),
        keyed.sum(),
        keyed.map(str),
    )
    return env.from_collection([one.get_name() for one in made])
