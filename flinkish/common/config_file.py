"""The sources of a configuration outside of the program: conf/config.yaml, overridden by `-Dkey=value`.

The file is YAML, nested (`execution: {checkpointing: {interval: 10 s}}`) or flat (`execution.checkpointing.interval: 10 s`).
It is read from the folder named by the environment variable FLINKISH_CONF_DIR, or from ./conf if the variable is not set.
Without a file all options have their defaults.
"""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from flinkish.common import config_options, options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError

CONFIG_FILE_NAME = "config.yaml"
#: The name of the file in Flink up to 1.20.
_FLINKS_FILE_NAME = "flink-conf.yaml"
#: Names the folder of the configuration file.
DIRECTORY_VARIABLE: Final = "FLINKISH_CONF_DIR"
#: Set by `flinkish run -Dkey=value ...` for the script that it runs: properties, quoted as for a shell.
PROPERTIES_VARIABLE: Final = "FLINKISH_PROPERTIES"
#: Prefix of the YAML tags of plain data.
_PLAIN = "tag:yaml.org,2002:"
_LOG = logging.getLogger(__name__)


def load_configuration(properties: Iterable[str] = (), *, environment: Mapping[str, str]) -> Configuration:
    """Return the entries of the file, overridden by `-D` properties.

    `properties` have the form that `parse_properties` reads; `environment` is os.environ, or a dict in tests. Every key of the
    file and of the properties is checked: an unknown key is logged as a warning that names the most similar known key, and a
    malformed value raises ConfigurationError.
    """
    configuration = Configuration()
    path = config_file(environment)
    _warn_of_other_files(environment)
    if path is not None:
        configuration.add_all(read_config_file(path))
    configuration.add_all(parse_properties(properties))
    for key in sorted(configuration.key_set()):
        check_key(configuration, key)
    return configuration


@functools.cache
def _warn_of(path: Path) -> None:
    _LOG.warning("%s is not read: flinkish reads conf/%s, with the same keys.", path, CONFIG_FILE_NAME)


def _warn_of_other_files(environment: Mapping[str, str]) -> None:
    """Warn once of a configuration file that has the name used by Flink 1.x."""
    here = Path.cwd()
    for folder in (Path(environment.get(DIRECTORY_VARIABLE) or here / "conf"), here):
        path = folder / _FLINKS_FILE_NAME
        if path.is_file():
            _warn_of(path)


def config_file(environment: Mapping[str, str]) -> Path | None:
    """Return the configuration file; None if there is none.

    Raises ConfigurationError if the environment names a folder without one.
    """
    directory = environment.get(DIRECTORY_VARIABLE)
    if directory:
        path = Path(directory) / CONFIG_FILE_NAME
        if not path.is_file():
            raise ConfigurationError(
                f"no {CONFIG_FILE_NAME} in the folder {directory}, which the environment variable {DIRECTORY_VARIABLE} names",
                hint=f"put the file there, or unset {DIRECTORY_VARIABLE} to use ./conf or the defaults.",
            )
        return path
    path = Path.cwd() / "conf" / CONFIG_FILE_NAME
    return path if path.is_file() else None


def read_config_file(path: Path) -> Configuration:
    """Read a YAML file of keys, nested or flat.

    Raises ConfigurationError, which names file and line, if the file cannot be read, is not YAML or no mapping, or repeats a key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration file {path} cannot be read: {error}") from error
    try:
        root = _compose(text)
        configuration = Configuration()
        if root is None:
            return configuration
        if not isinstance(root, yaml.MappingNode):
            raise ConfigurationError(
                f"{path} line {_line(root)}: a configuration file holds keys with values; got {_kind(root)}",
                hint="write one 'key: value' a line.",
            )
        for key, node in _entries(root, "", path):
            where = f"{path} line {_line(node)}"
            if configuration.contains_key(key):
                raise ConfigurationError(f"{where}: the key '{key}' is given twice; first in {configuration.origin(key)}")
            value = _construct(node)
            if value is not None:
                configuration.put(key, value, where)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path} line {mark.line + 1}" if mark is not None else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigurationError(f"{place}: not valid YAML: {problem}", hint="check the indentation and the colons.") from error
    return configuration


@functools.lru_cache(maxsize=4)
def _compose(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML text; callers must not change them.

    The result is cached, as each environment reads the file, and parsing our default file takes 15 ms.
    """
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _entries(node: yaml.MappingNode, prefix: str, path: Path) -> Iterator[tuple[str, yaml.Node]]:
    """Yield dotted keys with the nodes of their values."""
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigurationError(f"{path} line {_line(key_node)}: a key must be text; got {_kind(key_node)}")
        key = f"{prefix}{key_node.value}"
        # The value of an option of type map is a mapping itself.
        option = options.OPTIONS_BY_ANY_KEY.get(key)
        if isinstance(value_node, yaml.MappingNode) and (option is None or option.type is not config_options.MAP):
            yield from _entries(value_node, f"{key}.", path)
        else:
            yield key, value_node


def _construct(node: yaml.Node) -> Any:
    """Return the value of a node: a text, a list or dict of texts, or None if it is empty.

    Scalars stay text, which the options parse: YAML 1.1 would read 010 as 8, 1:30 as 90, the name 1.10 as 1.1 and "on" as true.
    """
    if node.tag == f"{_PLAIN}null":
        return None
    _check_tags(node)
    loader = yaml.BaseLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_tags(node: yaml.Node) -> None:
    """Raise YAMLError for a value whose tag asks for an object, such as `!!python/name:x`."""
    if not node.tag.startswith(_PLAIN) or node.tag.startswith(f"{_PLAIN}python"):
        raise yaml.constructor.ConstructorError(None, None, f"there is no type {node.tag!r} here", node.start_mark)
    for part in node.value if isinstance(node, yaml.CollectionNode) else ():
        for child in part if isinstance(part, tuple) else (part,):
            _check_tags(child)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def parse_properties(properties: Iterable[str]) -> Configuration:
    """Read the properties of a command line: `key=value`, with or without a leading -D. Values stay text.

    Raises ConfigurationError for a property without an equals sign or without a key.
    """
    configuration = Configuration()
    for given in properties:
        key, equals, value = given.removeprefix("-D").partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigurationError(
                f"bad property {given!r} on the command line: expected -Dkey=value",
                hint="for example -Dexecution.checkpointing.interval=10s, without spaces around the equals sign.",
            )
        configuration.put(key, value.strip(), f"-D{key} on the command line")
    return configuration


def resembling_key(key: str) -> str | None:
    """Return the known key most similar to an unknown key, None if no known key is similar."""
    return next(iter(difflib.get_close_matches(key, options.OPTIONS_BY_ANY_KEY, n=1, cutoff=0.8)), None)


def check_key(configuration: Configuration, key: str) -> None:
    """Raise ConfigurationError for a malformed value; log a warning for an unknown key, with the most similar known key."""
    option = options.OPTIONS_BY_ANY_KEY.get(key)
    if option is not None:
        configuration.get(option)
        return
    if key.startswith((*options.PASSED_ON_PREFIXES, options.REPORTER_PREFIX)) or options.is_of_account(key):
        return
    near = resembling_key(key)
    if near is not None:
        _LOG.warning("Unknown configuration key '%s' in %s is ignored; did you mean '%s'?", key, configuration.origin(key), near)
    elif not key.startswith(options.WITHOUT_EFFECT_PREFIXES):  # a job warns of these when it starts
        _LOG.warning("Unknown configuration key '%s' in %s is ignored.", key, configuration.origin(key))
