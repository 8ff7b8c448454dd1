"""Looks for a secret on the command lines of all processes, which every user of the machine can read."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Other test processes have others.
SECRET = f"Zq9-planted-{os.getpid()}"
#: A setting of Spark that is a secret.
KEY = "spark.hadoop.fs.s3a.secret.key"
#: A script that prints True twice if its Spark has SECRET as KEY; the variable `session` holds the session.
HAS_KEY = f"""
import os
from flinkish.common.config_file import load_configuration
from flinkish.engine.spark.session import open_session
session, release = open_session(load_configuration(environment=os.environ))
print("it has the key:", session.sparkContext.getConf().get({KEY!r}) == "{SECRET[:8]}" + "{SECRET[8:]}")
print("Hadoop has it:", session.sparkContext._jsc.hadoopConfiguration().get({KEY[13:]!r}) == "{SECRET[:8]}" + "{SECRET[8:]}")
"""


class Seen:
    """Command lines with the secret, by process id."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        self.looks = 0
        self.ended = threading.Event()

    def run(self) -> None:
        # The shortest process with options, a launcher of Spark's, lives for longer.
        while not self.ended.wait(0.05):
            self.looks += 1
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit():
                    with suppress(OSError):
                        line = (folder / "cmdline").read_bytes()
                        if SECRET.encode() in line:
                            self.found[int(folder.name)] = line.replace(b"\0", b" ").decode(errors="replace")


@contextmanager
def watched() -> Iterator[Seen]:
    """Look at the command lines of all processes again and again."""
    seen = Seen()
    thread = threading.Thread(target=seen.run)
    thread.start()
    try:
        yield seen
    finally:
        seen.ended.set()
        thread.join()
    assert seen.looks > 10
