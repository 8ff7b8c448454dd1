"""Configuration: keys with values, which can be read by type and know where they came from."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from flinkish.common import config_options, options
from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JARS_VALUE
from flinkish.common.arguments import bool_of, bytes_of, instance_of, int_of, number_of, text_of
from flinkish.common.config_options import ConfigOption
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.redaction import redact

T = TypeVar("T")
D = TypeVar("D")

_IN_PROGRAM = "the program"


class Configuration:
    """Keys with values.

    Values are kept as they were given (text, numbers, booleans, bytes, lists) and converted when they are read.

    >>> configuration = Configuration().set_string("a", "5").set_boolean("b", True)
    >>> configuration.get_integer("a", 0)
    5
    >>> configuration.to_dict()
    {'a': '5', 'b': 'true'}

    Read an option of `flinkish.common.options` to get a typed value or the option's default; durations are milliseconds:

    >>> from flinkish.common import options
    >>> Configuration.from_dict({"execution.checkpointing.interval": "10 s"}).get(options.CHECKPOINTING_INTERVAL)
    10000
    """

    parse_jars_value = AbsentMember(JARS_VALUE)

    __slots__ = ("_origins", "_values")

    def __init__(self, other: Configuration | None = None, j_configuration: Any = None) -> None:
        """Make an empty configuration, or a copy of another.

        `j_configuration` exists only to match PyFlink's signature; any value other than None raises InvalidArgumentError.
        """
        if j_configuration is not None:
            raise InvalidArgumentError("there is no Java Configuration object to wrap in flinkish; use Configuration.from_dict()")
        if other is not None:
            instance_of("Configuration()", other, Configuration, hint="use Configuration.from_dict(...).")
        self._values: dict[str, Any] = {} if other is None else dict(other._values)
        self._origins: dict[str, str] = {} if other is None else dict(other._origins)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        """Return a configuration with the entries of a dict."""
        configuration = cls()
        for key, value in map.items():
            configuration.put(key, value)
        return configuration

    # Typed access by option; not in PyFlink.

    def get(self, option: ConfigOption[T]) -> T:
        """Return the typed value of an option, or its default if neither its key nor an older name is set.

        Raises ConfigurationError for a malformed value; the error names key, value, expected form and the origin of the value.
        """
        key = self._key_of(option)
        if key is None:
            return option.default
        result: T = option.parse(self._values[key], key=key, origin=self._origins.get(key, _IN_PROGRAM))
        return result

    def set(self, option: ConfigOption[Any], value: Any) -> Configuration:
        """Set an option; the value may have any form that the option can parse. Raises ConfigurationError if it is malformed."""
        option.parse(value, origin=_IN_PROGRAM)
        for key in option.fallback_keys:
            self.remove_config(key)
        return self.put(option.key, value)

    def contains(self, option: ConfigOption[Any]) -> bool:
        """Return whether an option is set, by its key or an older name."""
        return self._key_of(option) is not None

    def _key_of(self, option: ConfigOption[Any]) -> str | None:
        if option.key in self._values:
            return option.key
        return next((key for key in option.fallback_keys if key in self._values), None)

    def put(self, key: str, value: Any, origin: str | None = None) -> Configuration:
        """Set a value of any form.

        `origin` says in messages where the value came from, such as "conf/config.yaml line 3"; None stands for the program.
        Raises InvalidArgumentError if the key is not a str or the value is None.
        """
        text_of("a configuration key", key, empty=True)
        if value is None:
            raise InvalidArgumentError(
                f"the value of the configuration key '{key}' must not be None", hint="use remove_config()."
            )
        self._values[key] = value
        if origin is None:
            self._origins.pop(key, None)
        else:
            self._origins[key] = origin
        return self

    def origin(self, key: str) -> str:
        """Return where the value of a key came from, in words for messages."""
        return self._origins.get(key, _IN_PROGRAM)

    # PyFlink's access by type.

    def _read(self, key: str, option_type: config_options.OptionType[T], default: D) -> T | D:
        if key not in self._values:
            return default
        result: T = ConfigOption(key, option_type, default).parse(self._values[key], origin=self.origin(key))
        return result

    def get_string(self, key: str, default_value: D) -> str | D:
        """Return a value as text."""
        return self._read(key, config_options.STRING, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a text."""
        return self.put(key, text_of(f"the value of set_string('{key}')", value, empty=True))

    def get_integer(self, key: str, default_value: D) -> int | D:
        """Return a value as a whole number. Raises ConfigurationError if it is not a number."""
        return self._read(key, config_options.LONG, default_value)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a whole number."""
        return self.put(key, int_of(f"the value of set_integer('{key}')", value))

    def get_boolean(self, key: str, default_value: D) -> bool | D:
        """Return a value as a boolean. Raises ConfigurationError if it is not true or false."""
        return self._read(key, config_options.BOOLEAN, default_value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a boolean."""
        return self.put(key, bool_of(f"the value of set_boolean('{key}')", value))

    def get_float(self, key: str, default_value: D) -> float | D:
        """Return a value as a number. Raises ConfigurationError if it is not a number."""
        return self._read(key, config_options.DOUBLE, default_value)

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number."""
        return self.put(key, float(number_of(f"the value of set_float('{key}')", value)))

    def get_bytearray(self, key: str, default_value: bytes | bytearray) -> bytearray:
        """Return a value as bytes. Raises ConfigurationError if it was not set as bytes."""
        return bytearray(self._read(key, _BYTES, default_value))

    def set_bytearray(self, key: str, value: bytes | bytearray) -> Configuration:
        """Set bytes."""
        return self.put(key, bytes_of(f"the value of set_bytearray('{key}')", value))

    # The configuration as a whole.

    def key_set(self) -> builtins.set[str]:
        """Return all keys."""
        return builtins.set(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether a key is set."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Remove a key; return whether it was set."""
        self._origins.pop(key, None)
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Add all entries of another configuration, with `prefix` put before their keys.

        Added entries win: if one has a name of an option, all other names of that option are removed from this configuration.
        """
        if prefix is None and other is not self:
            for key in other._values:
                option = options.OPTIONS_BY_ANY_KEY.get(key)
                if option is not None:
                    for same in (option.key, *option.fallback_keys):
                        self.remove_config(same)
        for key, value in other._values.items():
            self.put((prefix or "") + key, value, other._origins.get(key))
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Put all entries into a dict."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return all entries as text."""
        return {key: config_options.to_text(value) for key, value in self._values.items()}

    @staticmethod
    def parse_list_value(value: str) -> list[Any]:
        """Read a list: '[a, b]' or 'a;b'."""
        return config_options.parse_list_value(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __copy__(self, memo: dict[int, Any] | None = None) -> Configuration:
        return Configuration(self)

    __deepcopy__ = __copy__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset((key, config_options.to_text(value)) for key, value in self._values.items()))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={self._shown(key, value)}" for key, value in self._values.items()) + "}"

    @staticmethod
    def _shown(key: str, value: Any) -> str:
        if config_options.is_sensitive(key):
            return config_options.HIDDEN
        # A map, such as pipeline.global-job-parameters, and a URL may have secrets inside.
        return redact(config_options.to_text(value), config_options.is_sensitive)

    def __repr__(self) -> str:
        return f"Configuration({self})"

    def shown(self) -> list[tuple[str, str]]:
        """Return all entries as text, by key; the values of secrets are hidden."""
        return [(key, self._shown(key, value)) for key, value in sorted(self._values.items())]


_BYTES = config_options.OptionType("bytes", lambda value: bytearray(bytes_of("the value", value)))
