"""What functions return, how rows behave, and what collections may hold."""

from flinkish.common import Row, Types
from flinkish.datastream import CoFlatMapFunction, CoMapFunction, MapFunction, ProcessFunction
from tests.compatibility.kit import case


def named():
    return Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])


def one(env):
    return env.from_collection([1])


class Given(ProcessFunction):
    def __init__(self, results):
        self.results = results

    def process_element(self, value, ctx):
        return self.results


class Mapping(CoMapFunction):
    def map1(self, value):
        return None

    def map2(self, value):
        return value


class Flattening(CoFlatMapFunction):
    def flat_map1(self, value):
        return None

    def flat_map2(self, value):
        yield value


def outcome(function, *arguments):
    """Return what a call comes to, errors by their class."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__


def use_row(row):
    found = [row[0], row["x"], row.x, list(row), len(row), row[0:1], row.as_dict(), "x" in row, 1 in row, repr(row)]
    found += [row == Row(x=1, y="a"), row == Row(1, "a"), str(row.get_row_kind()), hash(row) == hash(tuple(row))]
    found += [row.get_fields_by_names(["y", "x"]), outcome(getattr, row, "zz"), outcome(lambda: row["zz"])]
    found += [outcome(setattr, row, "x", 5), outcome(lambda: row < row)]
    row[0] = 9
    return [*found, row.x]


@case()
def rows(env):
    return env.from_collection([(1, "a")], named()).map(use_row)


@case()
def rows_are_iterable(env):
    return env.from_collection([Row(1, "a"), Row(2, "b")], Types.ROW([Types.INT(), Types.STRING()])).flat_map(lambda row: row)


@case()
def rows_can_be_unpacked(env):
    def swap(row):
        number, text = row
        return Row(text, number, *row)

    stream = env.from_collection([(1, "a")], Types.ROW([Types.INT(), Types.STRING()]))
    return stream.map(swap, Types.ROW([Types.STRING(), Types.INT(), Types.INT(), Types.STRING()]))


@case()
def rows_in_rows(env):
    inner = Types.ROW([Types.INT(), Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.INT())])
    records = [Row("k", Row(1, ["a", None], {"m": 2})), Row(None, None)]
    return env.from_collection(records, Types.ROW([Types.STRING(), inner]))


@case()
def rows_from_dicts_and_objects(env):
    return env.from_collection([{"y": "a", "x": 1}, {"x": 2}, [3, "c"], (4, "d"), Row(y="e", x=5)], named())


@case()
def flat_map_of_text(env):
    return one(env).flat_map(lambda value: "ab")


@case()
def flat_map_of_none(env):
    return one(env).flat_map(lambda value: None)


@case()
def flat_map_of_a_number(env):
    return one(env).flat_map(lambda value: 5)


@case()
def flat_map_of_a_dict(env):
    return one(env).flat_map(lambda value: {"k": 1})


@case()
def filter_by_truth(env):
    return env.from_collection([0, 1, "", "a", [], [0]]).filter(lambda value: value)


@case()
def map_to_none_within_a_chain(env):
    return one(env).map(lambda value: None).map(lambda value: value is None)


@case()
def process_to_none(env):
    return one(env).process(Given(None))


@case()
def process_to_a_list(env):
    return one(env).process(Given([1, 2]))


@case()
def process_to_a_number(env):
    return one(env).process(Given(5))


@case()
def co_map_to_none(env):
    return one(env).connect(env.from_collection([2])).map(Mapping())


@case()
def co_flat_map_to_none(env):
    return one(env).connect(env.from_collection([2])).flat_map(Flattening())


@case()
def an_empty_collection(env):
    return env.from_collection([], Types.INT()).map(lambda value: value)


@case()
def a_generator(env):
    return env.from_collection((number for number in range(3)), Types.INT())


@case()
def text_as_a_collection(env):
    return env.from_collection("abc")


@case()
def numbers_that_are_too_large_wrap_around(env):
    return env.from_collection([43878], Types.SHORT())


@case()
def a_map_to_a_number_that_is_too_large(env):
    return one(env).map(lambda value: 43878, Types.SHORT())


@case()
def a_map_to_a_tuple_of_type_row(env):
    return one(env).map(lambda value: (1, "a"), named())


@case()
def a_map_to_a_list_of_type_tuple(env):
    return one(env).map(lambda value: [1, "a"], Types.TUPLE([Types.INT(), Types.STRING()]))


@case()
def a_map_to_a_number_of_type_text(env):
    return one(env).map(lambda value: 5, Types.STRING())


@case()
def a_collection_in_two_subtasks(env):
    return one(env).set_parallelism(2)


@case()
def a_union_of_two_types(env):
    return env.from_collection([1], Types.INT()).union(env.from_collection(["a"], Types.STRING()))


@case()
def project(env):
    return env.from_collection([(1, "a", 2.5)], Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()])).project(2, 0)


@case()
def project_of_rows(env):
    return env.from_collection([Row(1, "a")], named()).project(0)


class Subtask(MapFunction):
    def open(self, runtime_context):
        self.context = runtime_context

    def map(self, value):
        context = self.context
        counts = context.get_number_of_parallel_subtasks(), context.get_max_number_of_parallel_subtasks()
        place = context.get_index_of_this_subtask(), context.get_attempt_number()
        return counts, place, context.get_job_parameter("given", "default"), context.get_job_parameter("missing", "default")


@case({"pipeline.global-job-parameters": "given:parameter,other:1"})
def what_a_function_knows_of_its_subtask(env):
    return one(env).rebalance().map(Subtask())
