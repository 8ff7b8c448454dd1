#!/usr/bin/env python3
"""Runs `make test`, prints pytest's closing line last, and leaves no process behind.

Needs nothing but Python: it runs before anything is installed.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
CLOSING_LINE = re.compile(r"^(=+ )?(\d+ (passed|failed|error|errors|skipped|deselected)|no tests ran)\b.* in [\d.]+s")
#: Seconds: Spark's JVM ends by itself shortly after its driver.
GRACE = 15


def children():
    """Return the ids of all processes below this one."""
    below = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                # The name is in brackets and may contain any character; the state and the parent follow it.
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            below.setdefault(int(parent), []).append(int(entry))
    found, todo = [], [os.getpid()]
    while todo:
        new = below.get(todo.pop(), [])
        found += new
        todo += new
    return found


def describe(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()[:200]
    except OSError:
        return "?"


def wait_until_gone(seconds):
    deadline = time.monotonic() + seconds
    while children() and time.monotonic() < deadline:
        time.sleep(0.1)
    return children()


def end_what_is_left(grace):
    """End processes that the tests left running, and report them, because there should be none."""
    for pid in wait_until_gone(grace):
        print(f"left behind by the tests, ended now: {pid} {describe(pid)}", file=sys.stderr)
        send(pid, signal.SIGTERM)
    for pid in wait_until_gone(5):
        send(pid, signal.SIGKILL)
    wait_until_gone(5)


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def copy_output(stream, closing):
    """Show the output as it comes and keep the last closing line in the list `closing`."""
    for line in stream:
        print(line, end="", flush=True)
        if CLOSING_LINE.match(line):
            closing[:] = [line.rstrip()]


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    linux = sys.platform == "linux"
    if linux:
        # Orphans below us become our children, so that they can be found.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A signal becomes an exception, so that the clean-up below runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    closing = ["make test ended before pytest did"]
    make = subprocess.Popen(["make", "test"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    # In a thread: a process that is left behind may keep the pipe open after make has ended.
    reader = threading.Thread(target=copy_output, args=(make.stdout, closing), daemon=True)
    reader.start()
    grace = 0
    try:
        code = make.wait()
        grace = GRACE
    except KeyboardInterrupt:
        code = 130
    finally:
        if linux:
            end_what_is_left(grace)
        reader.join(10)
        print(closing[0], flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
