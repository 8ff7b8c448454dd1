"""Typed configuration keys: the form and the default of their values."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import yaml

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import INTERNAL
from flinkish.common.arguments import text_of
from flinkish.common.errors import ConfigurationError
from flinkish.common.limits import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from flinkish.common.time import Duration, Time, milliseconds_of, parse_duration

__all__ = ["ConfigOption", "ConfigOptions", "OptionBuilder", "OptionType", "TypedConfigOptionBuilder"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OptionType(Generic[T]):
    """How the values of an option are written.

    `parse` takes the value as given (text, or a Python value) and raises ValueError or TypeError if it is malformed.
    """

    #: For messages: "a duration such as '10 s'".
    expected: str
    parse: Callable[[Any], T]


#: Printed instead of a value that may be a secret.
HIDDEN = "******"
#: Parts of keys whose values are not printed. Source: org.apache.flink.configuration.GlobalConfiguration; ours are those from
#: access-key on. A dash stands for any separator of words, or none: access.key, ACCESS_KEY, AccessKey.
_SENSITIVE = (
    "password|secret|api-key|auth-params|service-key|token|basic-auth|jaas-config|http-headers|access-key|account-key|private-key|"
    "passwd|passphrase|pwd|credential|fs-azure-sas|shared-access|x-amz-signature"
)
_SENSITIVE_PART = re.compile(_SENSITIVE.replace("-", "[-_.]?"), re.IGNORECASE)
#: Whole words that name a secret at the end of a key: db.pass, ?sig=, -Dsas=, -storepass; not compass.
_SENSITIVE_LAST = re.compile(r"(?:^-D|^|[^a-z]|store|key)(?:pass|sig|sas)$", re.IGNORECASE)
#: A key that ends with the word itself: encryption.key, account_key, apiKey; not hmac-key-file or key.fields.
_SENSITIVE_END = re.compile(r"(?:^|[._-])keys?$|[a-z]Keys?$")


def is_sensitive(key: str) -> bool:
    """Return whether the value of a key may be a secret, and is not to be printed.

    >>> is_sensitive("s3.secret-key"), is_sensitive("encryption.key"), is_sensitive("s3.endpoint")
    (True, True, False)
    """
    return is_sensitive_word(key) or _SENSITIVE_END.search(key) is not None


def is_sensitive_word(word: str) -> bool:
    """Return whether a word of a text names a secret. "key" alone does not: most keys in a text are not secret."""
    return _SENSITIVE_PART.search(word) is not None or _SENSITIVE_LAST.search(word) is not None


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A configuration key with its type, default and older names; made with `ConfigOptions.key()`.

    Read it with `configuration.get(option)`.
    """

    key: str
    type: OptionType[Any]
    default: T
    description: str = ""
    #: Older or shorter names, looked up in order if the key itself is not set.
    fallback_keys: tuple[str, ...] = ()
    #: Why the option is accepted without effect, as a clause; None = it has an effect.
    no_effect: str | None = None

    def described(self, description: str) -> ConfigOption[T]:
        """Return the option with a description."""
        return replace(self, description=description)

    def without_effect(self, why: str) -> ConfigOption[T]:
        """Return the option as one without effect; a job logs a warning if it is not set to its default. `why` is a clause."""
        return replace(self, description=f"Accepted; without effect: {why}.", no_effect=why)

    def parse(self, value: Any, *, key: str | None = None, origin: str | None = None) -> Any:
        """Return the typed value of a value as given: text, or a Python value.

        Raises ConfigurationError if it is malformed; the error names key, value, expected form and the origin of the value.
        """
        try:
            return self.type.parse(value)
        except (ValueError, TypeError) as error:
            place = f", from {origin}" if origin else ""
            hidden = is_sensitive(key or self.key)
            raise ConfigurationError(
                f"bad value {HIDDEN if hidden else repr(value)} for the configuration key '{key or self.key}'{place}: "
                f"expected {self.type.expected}",
                hint=None if self.default is None else f"the default is {self.default!r}.",
            ) from (None if hidden else error)


class ConfigOptions:
    """Entry point for building options.

    >>> option = ConfigOptions.key("tmp.dir").string_type().default_value("/tmp")
    >>> option.key, option.default
    ('tmp.dir', '/tmp')
    """

    if not TYPE_CHECKING:
        # Nested classes in PyFlink; in annotations of this module the names mean the module's classes.
        OptionBuilder = AbsentMember(INTERNAL)
        TypedConfigOptionBuilder = AbsentMember(INTERNAL)

    @staticmethod
    def key(key: str) -> OptionBuilder:
        """Return a builder for the option of the given key."""
        return OptionBuilder(text_of("a configuration key", key))


class OptionBuilder:
    """A builder whose methods set the type of an option."""

    def __init__(self, key: str) -> None:
        self._key = key

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """The value is true or false."""
        return TypedConfigOptionBuilder(self._key, BOOLEAN)

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """The value is a whole number of 32 bits."""
        return TypedConfigOptionBuilder(self._key, INT)

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """The value is a whole number of 64 bits."""
        return TypedConfigOptionBuilder(self._key, LONG)

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """The value is a number."""
        return TypedConfigOptionBuilder(self._key, DOUBLE)

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """The value is a number."""
        return TypedConfigOptionBuilder(self._key, DOUBLE)

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """The value is text."""
        return TypedConfigOptionBuilder(self._key, STRING)

    def duration_type(self) -> TypedConfigOptionBuilder[int]:
        """The value is a duration, read as milliseconds."""
        return TypedConfigOptionBuilder(self._key, DURATION)

    def memory_type(self) -> TypedConfigOptionBuilder[int]:
        """The value is an amount of memory, read as bytes."""
        return TypedConfigOptionBuilder(self._key, MEMORY)


class TypedConfigOptionBuilder(Generic[T]):
    """A builder whose methods set the default of an option."""

    def __init__(self, key: str, option_type: OptionType[T]) -> None:
        self._key = key
        self._type = option_type

    def default_value(self, value: T) -> ConfigOption[T]:
        """Return the option with this default, a value of the option's type."""
        return ConfigOption(self._key, self._type, value)

    def no_default_value(self) -> ConfigOption[T | None]:
        """Return the option without a default: its value is None if the key is not set."""
        return ConfigOption(self._key, self._type, None)


def _parse_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "false"):
        return text == "true"
    raise ValueError(value)


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, str, float)):
            raise TypeError(value)
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(value)
        number = int(value)
        if not low <= number <= high:
            raise ValueError(value)
        return number

    return parse


def _parse_double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        raise TypeError(value)
    return float(value)


def _parse_duration(value: Any) -> int:
    if isinstance(value, (Duration, Time, datetime.timedelta)):
        return milliseconds_of(value, "a duration")
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(value)
    if isinstance(value, int):
        return value
    # A plain number may be negative, which switches some features off; an amount with a unit may not.
    return int(value) if re.fullmatch(r"\s*-\d+\s*", value) else parse_duration(value).to_millis()


_MEMORY_UNITS = dict.fromkeys(("", "b", "bytes"), 1) | {
    unit: 1024**power
    for power, name in enumerate(("kibi", "mebi", "gibi", "tebi"), start=1)
    for unit in (name[0], f"{name[0]}b", f"{name}bytes")
}


def _parse_memory(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(value)
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", str(value).strip().lower())
    if match is None or match[2] not in _MEMORY_UNITS:
        raise ValueError(value)
    unit: int = _MEMORY_UNITS[match[2]]
    return int(match[1]) * unit


def parse_list_value(value: Any) -> list[Any]:
    """Read a list: a Python list, a YAML list such as '[a, b]', or text separated by ';'."""
    return _list_value(value, yaml.SafeLoader)


def _list_value(value: Any, loader: type[yaml.BaseLoader | yaml.SafeLoader]) -> list[Any]:
    if not value:
        return []
    if isinstance(value, (list, tuple)):
        return list(value)
    if not isinstance(value, str):
        raise TypeError(value)
    if value.lstrip()[:1] in ("[", "-"):
        try:
            loaded = yaml.load(value, Loader=loader)
        except yaml.YAMLError as error:
            raise ValueError(value) from error
        if isinstance(loaded, list):
            return loaded
    return [item.strip() for item in value.split(";") if item.strip()]


def _parse_map(value: Any) -> dict[str, str]:
    if not value:
        return {}
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("{"):
            try:
                value = yaml.load(text, Loader=yaml.BaseLoader)
            except yaml.YAMLError as error:
                raise ValueError(value) from error
        else:
            value = {}
            for entry in text.split(","):
                key, colon, item = entry.partition(":")
                if not colon:
                    raise ValueError(text)
                value[key.strip()] = item.strip()
    if not isinstance(value, dict):
        raise TypeError(value)
    return {to_text(key): to_text(item) for key, item in value.items()}


BOOLEAN: OptionType[bool] = OptionType("true or false", _parse_boolean)
INT: OptionType[int] = OptionType("a whole number of 32 bits", _whole(INT_MIN, INT_MAX))
LONG: OptionType[int] = OptionType("a whole number of 64 bits", _whole(LONG_MIN, LONG_MAX))
DOUBLE: OptionType[float] = OptionType("a number", _parse_double)
STRING: OptionType[str] = OptionType("text", lambda value: to_text(value))
#: Read as milliseconds.
DURATION: OptionType[int] = OptionType("a duration such as '10 s', '5 min', 'PT1M' or a number of milliseconds", _parse_duration)
#: Read as bytes.
MEMORY: OptionType[int] = OptionType("an amount of memory such as '20 kb', '64 mb' or a number of bytes", _parse_memory)
#: Texts are kept as written: YAML 1.1 would read 010 as 8 and 1.10 as 1.1.
LIST: OptionType[list[str]] = OptionType(
    "a list such as 'a;b' or '[a, b]'", lambda value: [to_text(item) for item in _list_value(value, yaml.BaseLoader)]
)
MAP: OptionType[dict[str, str]] = OptionType("a map such as 'k1:v1,k2:v2' or '{k1: v1}'", _parse_map)


def in_range(base: OptionType[T], minimum: Any, maximum: Any = None) -> OptionType[T]:
    """Return a type whose values must be at least `minimum` and, if given, at most `maximum`."""

    def parse(value: Any) -> Any:
        number: Any = base.parse(value)
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError(value)
        return number

    limit = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    return OptionType(f"{base.expected}, {limit}", parse)


def one_of(*choices: str) -> OptionType[str]:
    """Return a type whose values are one of the choices; case does not matter, nor whether words are joined by - or _."""
    normal = {_normalized(choice): choice for choice in choices}

    def parse(value: Any) -> str:
        try:
            return normal[_normalized(to_text(value))]
        except KeyError:
            raise ValueError(value) from None

    return OptionType(f"one of {', '.join(choices)}", parse)


def ports_of(text: str) -> range:
    """Return the ports that a text such as `8081` or `9250-9260` names; an empty range if it is neither a port nor a range.

    >>> ports_of("8081"), ports_of("9250-9260"), ports_of("80x")
    (range(8081, 8082), range(9250, 9261), range(0, 0))
    """
    found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    return range(first, last + 1) if last <= 65_535 else range(0)


def _normalized(text: str) -> str:
    return text.strip().lower().replace("-", "_")


def to_text(value: Any) -> str:
    """Return a value as a configuration file writes it: true for True, milliseconds for an amount of time."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Duration, Time, datetime.timedelta)):
        return f"{milliseconds_of(value, 'a duration')} ms"
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (list, tuple)):
        return ";".join(to_text(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{to_text(key)}:{to_text(item)}" for key, item in value.items())
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value)
