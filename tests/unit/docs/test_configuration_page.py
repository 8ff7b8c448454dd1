"""The page of configuration keys holds every key of the code, with its default as a file would have it."""

from __future__ import annotations

from typing import Any

import pytest

from docs.configuration_page import SECTIONS, markdown, shown_default
from flinkish.common import options
from flinkish.common.config_options import ConfigOption


def test_every_key_is_on_the_page_once() -> None:
    page = markdown()

    assert [key for key in options.OPTIONS if page.count(f"\n| `{key}`") != 1] == []
    assert [key for option in options.OPTIONS.values() for key in option.fallback_keys if f"older: `{key}`" not in page] == []


def test_every_section_has_keys() -> None:
    page = markdown()

    assert [
        title for title in SECTIONS.values() if f"## {title}\n\n| key | value | default | what it does |\n|---" not in page
    ] == []
    assert "|---|---|---|---|\n\n" not in page


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        (options.EPOCH_TARGET_DURATION, "`1 s`"),
        (options.CHECKPOINTING_TIMEOUT, "`10 min`"),
        (options.EPOCH_POLL_INTERVAL, "`100 ms`"),
        (options.MIN_PAUSE_BETWEEN_CHECKPOINTS, "`0 ms`"),
        (options.RESTART_STRATEGY_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD, "`1 h`"),
        (options.FS_SMALL_FILE_THRESHOLD, "`20 kb`"),
        (options.OPERATOR_CHAINING, "`true`"),
        (options.CHECKPOINTING_INTERVAL, "not set"),
        (options.ENGINE, "`spark`"),
    ],
)
def test_a_default_is_shown_as_a_file_has_it(option: ConfigOption[Any], shown: str) -> None:
    assert shown_default(option) == shown


def test_defaults_are_read_back_as_they_are() -> None:
    for option in options.OPTIONS.values():
        if option.default is not None:
            assert option.parse(shown_default(option).strip("`")) == option.default, option.key
