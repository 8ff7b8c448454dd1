"""The examples of the documentation: each runs on the local engine and prints what its page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common import options
from flinkish.common.config_file import load_configuration
from tests.kit.own_process import set_arguments
from tests.unit.datastream.connectors.fakes import FakeOutput
from tests.unit.docs.pages import PAGES, PAGES_FOLDER, blocks, blocks_of, title

_ROOT = PAGES_FOLDER.parents[1]
#: Pages whose examples need a broker: run in tests/behaviour/test_kafka_sink.py.
_NEED_MORE = ("kafka",)


def check_outputs(
    page: Path, engine: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the blocks of a page in a folder, on an engine, and compare what they print with what it says."""
    monkeypatch.chdir(folder)
    set_arguments(monkeypatch, "example")
    monkeypatch.setenv("FLINKISH_PROPERTIES", f"-Dexecution.engine={engine}")
    # As in a script: its classes are sent to the tasks by value.
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in blocks(page, "python"):
        # Tracebacks show the page's lines.
        exec(compile("\n" * (block.line - 1) + block.content, str(page), "exec", dont_inherit=True), namespace)
        assert capsys.readouterr().out == block.output, f"{page}, line {block.line}"


def needs_spark(page: Path) -> bool:
    """Return whether the examples of a page use a SparkSession; tests/spark runs those."""
    return any("import SparkSession" in block.content for block in blocks(page, "python"))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=title(page))
        for page in PAGES
        if blocks(page, "python") and not needs_spark(page) and page.stem not in _NEED_MORE
    ],
)
def test_the_examples_of_a_page_print_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLINKISH_CONF_DIR", str(_ROOT / "conf"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    check_outputs(page, "local", tmp_path, monkeypatch, capsys)


def test_the_example_of_a_source_reads_several_splits_as_after_a_restore_at_a_lower_parallelism() -> None:
    (block,) = [one for one in blocks(PAGES_FOLDER / "connectors" / "sources.md", "python") if "CountdownReader" in one.content]
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(block.content.partition("\nenv.")[0], "sources.md", "exec", dont_inherit=True), namespace)
    reader, output = namespace["CountdownReader"](), FakeOutput(3)

    reader.add_splits([namespace["Countdown"](split_id=name, next=2) for name in "ab"])
    reader.poll_next(output)
    reader.poll_next(output)
    assert [(split.split_id, split.next) for split in reader.snapshot_state()] == [("b", 1)]
    output.credit = 3
    reader.poll_next(output)

    assert output.values == [("a", 2), ("a", 1), ("b", 2), ("b", 1)]
    assert output.finished == ["a", "b"]


@pytest.mark.parametrize("page", [pytest.param(page, id=title(page)) for page in PAGES if blocks(page, "yaml")])
def test_the_configuration_files_of_a_page_are_valid(page: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for block in blocks(page, "yaml"):
        (tmp_path / "config.yaml").write_text(block.content)
        configuration = load_configuration(environment={"FLINKISH_CONF_DIR": str(tmp_path)})
        for key in configuration.key_set() - {key for key in configuration.key_set() if key.startswith("spark.")}:
            configuration.get(options.OPTIONS_BY_ANY_KEY[key])
        assert [record.getMessage() for record in caplog.records] == [], f"{page}, line {block.line}"


def test_every_fence_is_of_a_kind_that_is_checked_or_cannot_be() -> None:
    known = {"python", "text", "yaml", "bash", "sql", "diff", "picture"}
    for page in PAGES:
        fences = [line for line in page.read_text().splitlines() if line.startswith("```")]
        assert len(fences) % 2 == 0, page
        assert {line.removeprefix("```") for line in fences[::2]} <= known, page


def test_output_belongs_to_the_block_right_before_it() -> None:
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 1\n```\nwords\n```text\n2\n```\n"

    assert [(block.line, block.content, block.output) for block in blocks_of(text, "python")] == [
        (2, "print(1)\n", "1\n"),
        (10, "x = 1\n", ""),
    ]
