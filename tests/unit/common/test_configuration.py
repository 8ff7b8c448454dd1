"""Configuration, options and their types."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from flinkish.common import ConfigOptions, Configuration, options
from flinkish.common.config_options import ConfigOption
from flinkish.common.errors import ConfigurationError, InvalidArgumentError
from flinkish.common.time import Duration


def test_values_are_converted_when_they_are_read() -> None:
    configuration = Configuration.from_dict({"i": "5", "b": "TRUE", "f": "1.5"})
    assert configuration.get_integer("i", 0) == 5
    assert configuration.get_boolean("b", False) is True
    assert configuration.get_float("f", 0.0) == 1.5
    assert configuration.set_integer("n", 7).get_string("n", "") == "7"
    assert configuration.get_string("missing", "x") == "x"


def test_bytes_come_back_as_a_bytearray() -> None:
    configuration = Configuration().set_bytearray("k", bytearray(b"ab"))
    assert configuration.get_bytearray("k", bytearray()) == bytearray(b"ab")
    assert configuration.get_bytearray("missing", bytearray(b"d")) == bytearray(b"d")


def test_a_malformed_value_is_told_with_key_value_expected_form_and_place() -> None:
    configuration = Configuration().put("execution.checkpointing.interval", "soon", "conf/config.yaml line 3")
    with pytest.raises(ConfigurationError) as error:
        configuration.get(options.CHECKPOINTING_INTERVAL)
    text = str(error.value)
    for part in ("execution.checkpointing.interval", "'soon'", "'10 s'", "conf/config.yaml line 3"):
        assert part in text


@pytest.mark.parametrize("wrong", [5, None, True, 1.5])
def test_set_string_takes_only_text(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"value of set_string\('k'\) must be a str"):
        Configuration().set_string("k", wrong)


def test_setters_of_other_types_check_too() -> None:
    with pytest.raises(InvalidArgumentError, match="must be an int"):
        Configuration().set_integer("k", True)
    with pytest.raises(InvalidArgumentError, match="must be a bool"):
        Configuration().set_boolean("k", 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="must be a number"):
        Configuration().set_float("k", "1")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="must be bytes"):
        Configuration().set_bytearray("k", "x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [("10 s", 10_000), ("5 min", 300_000), (250, 250), ("PT1M", 60_000), (Duration.of_seconds(2), 2000)],
)
def test_durations_are_read_as_milliseconds(value: Any, milliseconds: int) -> None:
    assert Configuration().set(options.CHECKPOINTING_INTERVAL, value).get(options.CHECKPOINTING_INTERVAL) == milliseconds


@pytest.mark.parametrize(("value", "size"), [("20 kb", 20_480), ("1m", 2**20), ("5", 5), (7, 7), ("2 GB", 2**31)])
def test_amounts_of_memory_are_read_as_bytes(value: Any, size: int) -> None:
    assert Configuration().set(options.FS_SMALL_FILE_THRESHOLD, value).get(options.FS_SMALL_FILE_THRESHOLD) == size


@pytest.mark.parametrize("value", ["exactly_once", "EXACTLY-ONCE", "Exactly_Once"])
def test_choices_are_read_in_any_spelling(value: str) -> None:
    assert (
        Configuration().put("execution.checkpointing.mode", value).get(options.CHECKPOINTING_CONSISTENCY_MODE) == "EXACTLY_ONCE"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.engine", "flink"),
        ("parallelism.default", 0),
        ("parallelism.default", 1.5),
        ("pipeline.max-parallelism", 40_000),
        ("execution.checkpointing.timeout", "-5 s"),
        ("execution.checkpointing.unaligned.enabled", "yes"),
        ("restart-strategy.type", "sometimes"),
        ("restart-strategy.exponential-delay.jitter-factor", 2),
        ("pipeline.global-job-parameters", "novalue"),
        ("execution.checkpointing.data-inline-threshold", "20 parsecs"),
    ],
)
def test_values_that_are_not_allowed_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=key):
        Configuration().put(key, value).get(options.OPTIONS[key])


def test_an_option_that_is_not_set_has_its_default() -> None:
    configuration = Configuration()
    assert configuration.get(options.ENGINE) == "spark"
    assert configuration.get(options.CHECKPOINTING_INTERVAL) is None
    assert not configuration.contains(options.ENGINE)


def test_older_names_are_read_and_lose_against_the_newer_one() -> None:
    configuration = Configuration().put("pipeline.operator-chaining", "false")
    assert configuration.get(options.OPERATOR_CHAINING) is False
    assert configuration.contains(options.OPERATOR_CHAINING)
    assert configuration.put("pipeline.operator-chaining.enabled", "true").get(options.OPERATOR_CHAINING) is True


def test_setting_an_option_replaces_its_older_names() -> None:
    configuration = Configuration().put("state.checkpoints.dir", "/old").set(options.CHECKPOINTS_DIRECTORY, "/new")
    assert configuration.to_dict() == {"execution.checkpointing.dir": "/new"}


@pytest.mark.parametrize(
    ("value", "strategy"), [("off", "none"), (False, "none"), ("fixeddelay", "fixed-delay"), ("NONE", "none")]
)
def test_restart_strategies_have_flinks_other_names(value: Any, strategy: str) -> None:
    assert Configuration().put("restart-strategy", value).get(options.RESTART_STRATEGY) == strategy


@pytest.mark.parametrize("value", [{"a": 1, "b": "x"}, "a:1,b:x", "{a: 1, b: x}"])
def test_maps_have_three_forms(value: Any) -> None:
    assert Configuration().put("pipeline.global-job-parameters", value).get(options.GLOBAL_JOB_PARAMETERS) == {"a": "1", "b": "x"}


@pytest.mark.parametrize("value", [["a", "b"], "a;b", "[a, b]"])
def test_lists_have_three_forms(value: Any) -> None:
    assert Configuration().put("pipeline.jars", value).get(options.JARS) == ["a", "b"]


def test_options_of_the_user_are_built_and_read() -> None:
    count = ConfigOptions.key("my.count").int_type().default_value(3)
    name = ConfigOptions.key("my.name").string_type().no_default_value()
    wait = ConfigOptions.key("my.wait").duration_type().default_value(5)
    size = ConfigOptions.key("my.size").memory_type().no_default_value()
    flag = ConfigOptions.key("my.flag").boolean_type().default_value(False)
    ratio = ConfigOptions.key("my.ratio").double_type().default_value(0.5)
    configuration = Configuration.from_dict({"my.count": "4", "my.wait": "1 s", "my.size": "1 kb", "my.flag": "true"})
    assert [configuration.get(option) for option in (count, wait, size, flag, ratio)] == [4, 1000, 1024, True, 0.5]
    assert configuration.get(name) is None
    with pytest.raises(InvalidArgumentError, match="non-empty str"):
        ConfigOptions.key("")


def test_everything_becomes_text_as_in_a_file() -> None:
    configuration = (
        Configuration().set_boolean("b", True).set_integer("i", 1).put("d", Duration.of_seconds(1)).put("l", ["x", "y"])
    )
    assert configuration.to_dict() == {"b": "true", "i": "1", "d": "1000 ms", "l": "x;y"}
    assert str(Configuration().set_string("k1", "v1").set_integer("k2", 1)) == "{k1=v1, k2=1}"
    target: dict[str, Any] = {}
    configuration.add_all_to_dict(target)
    assert target["i"] == 1


def test_entries_are_added_removed_and_compared() -> None:
    configuration = Configuration().set_string("a", "1")
    other = Configuration(configuration)
    assert (configuration, hash(configuration)) == (other, hash(other))
    assert configuration.remove_config("a") is True
    assert configuration.remove_config("a") is False
    assert configuration != other
    assert configuration.add_all(other, "x.").key_set() == {"x.a"}
    assert configuration.contains_key("x.a")


def test_what_is_added_wins_under_whatever_name() -> None:
    configuration = Configuration().put("execution.checkpointing.dir", "/new")
    configuration.add_all(Configuration().put("state.checkpoints.dir", "/later"))
    assert configuration.get(options.CHECKPOINTS_DIRECTORY) == "/later"


def test_copies_are_independent_and_keep_the_origin_of_values() -> None:
    configuration = Configuration().put("a", "1", "the file")
    for twin in (copy.copy(configuration), copy.deepcopy(configuration), pickle.loads(pickle.dumps(configuration))):
        assert twin == configuration
        assert twin.origin("a") == "the file"
        twin.put("a", "2")
        assert configuration.get_string("a", "") == "1"


def test_a_null_value_or_another_kind_of_key_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must not be None"):
        Configuration().put("a", None)
    with pytest.raises(InvalidArgumentError, match="must be a str"):
        Configuration().put(1, "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="from_dict"):
        Configuration({"a": "b"})  # type: ignore[arg-type]


@pytest.mark.parametrize("option", options.OPTIONS.values(), ids=lambda option: option.key)
def test_every_option_is_described_and_its_default_is_a_value_it_would_accept(option: ConfigOption[Any]) -> None:
    assert option.description.endswith(".")
    if option.default is not None:
        assert option.parse(option.default) == option.default


def test_no_key_belongs_to_two_options() -> None:
    keys = [key for option in options.OPTIONS.values() for key in (option.key, *option.fallback_keys)]
    assert len(keys) == len(set(keys))
