"""None as a record of each type, within a chain of operators and through an exchange."""

from flinkish.common import Types
from flinkish.common.typeinfo import LocalTimeTypeInfo
from tests.compatibility.kit import case

TYPES = {
    "string": Types.STRING,
    "byte": Types.BYTE,
    "boolean": Types.BOOLEAN,
    "short": Types.SHORT,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "char": Types.CHAR,
    "big_int": Types.BIG_INT,
    "big_dec": Types.BIG_DEC,
    "instant": Types.INSTANT,
    "sql_date": Types.SQL_DATE,
    "sql_time": Types.SQL_TIME,
    "sql_timestamp": Types.SQL_TIMESTAMP,
    "local_date": lambda: LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE),
    "local_time": lambda: LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME),
    "local_date_time": lambda: LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME),
    "pickled": Types.PICKLED_BYTE_ARRAY,
    "tuple": lambda: Types.TUPLE([Types.INT()]),
    "row": lambda: Types.ROW([Types.INT()]),
    "bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "primitive_array": lambda: Types.PRIMITIVE_ARRAY(Types.INT()),
    "basic_array": lambda: Types.BASIC_ARRAY(Types.STRING()),
    "object_array": lambda: Types.OBJECT_ARRAY(Types.INT()),
    "list": lambda: Types.LIST(Types.INT()),
    "map": lambda: Types.MAP(Types.STRING(), Types.INT()),
}


def through_an_exchange(make_type):
    @case()
    def exchange(env):
        nothing = env.from_collection([1]).map(lambda value: None, make_type())
        return nothing.rebalance().map(lambda value: value is None)

    return exchange


for name, make_type in TYPES.items():
    globals()[f"of_type_{name}"] = through_an_exchange(make_type)


@case()
def within_a_chain(env):
    stream = env.from_collection([1, 2])
    return stream.map(lambda value: None if value == 1 else value, Types.INT()).filter(lambda value: value is not None)
