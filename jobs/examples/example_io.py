"""Code that the examples share: command-line arguments and output."""

from __future__ import annotations

import argparse

from flinkish.common import Encoder
from flinkish.datastream import DataStream
from flinkish.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy


def parse_arguments(description: str | None, *, with_input: bool = False) -> argparse.Namespace:
    """Return the arguments of an example; the environment reads unknown ones, such as -Dexecution.engine=local."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if with_input:
        parser.add_argument("--input", metavar="PATH", help="a text file, or a folder of text files; default: built-in lines")
    parser.add_argument("--output", metavar="FOLDER", help="write text files to this folder; default: print")
    arguments, _ = parser.parse_known_args()
    return arguments


def print_or_write(stream: DataStream, folder: str | None) -> None:
    """Print a stream, or write it to text files in a folder."""
    if folder is None:
        stream.print()
        return
    names = OutputFileConfig.builder().with_part_prefix("results").with_part_suffix(".txt").build()
    sink = (
        FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        .with_output_file_config(names)
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .build()
    )
    stream.sink_to(sink)
