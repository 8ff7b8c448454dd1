"""Decides what a process id in a record says here: the record may be from another machine or container, or from before a restart.

Names of hosts do not decide that: containers, and clones of a machine, often have the same one. A location names the boot of the
kernel, the namespaces of the process, and the machine. All of them are facts of the kernel that no image contains, or are not
used alone.
"""

from __future__ import annotations

import functools
import hashlib
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flinkish.engine.processes import namespace


class Location(NamedTuple):
    """The machine, container and network in which a process runs. Records contain its text."""

    #: Id of this run of the kernel: all containers of a machine have the same one, and no two machines do.
    boot: str
    #: The pid namespace, in which ids of processes are unique, and the network namespace, in which 127.0.0.1 is one host.
    processes: str
    network: str
    #: A hash that is the same after a restart of the machine, and different on any other one; "" = it is not known.
    machine: str

    def __str__(self) -> str:
        return "/".join(self)

    @classmethod
    def parse(cls, text: str) -> Location:
        """Return the location that a record names; parts that a damaged record lacks are not known."""
        return cls(*[*text.split("/"), "", "", ""][:4])


def is_alive(there: str, here: str, runs_here: Callable[[], bool]) -> bool | None:
    """Return whether a process that was recorded at `there` is running; None = that cannot be known at `here`.

    `runs_here` returns whether it is a process of `here`. That decides if boot and pid namespace are the same. After a restart of
    the machine, all processes of before are gone. Nothing is known of other machines and other containers. A container that is
    started again is another one: its pid namespace is new, and nothing shows that the former one is gone.
    """
    before, now = Location.parse(there), Location.parse(here)
    if (before.boot, before.processes) == (now.boot, now.processes):
        return runs_here()
    if before.boot != now.boot and before.machine and before.machine == now.machine:
        return False
    return None


def has_same_loopback(there: str, here: str) -> bool:
    """Return whether 127.0.0.1 is the same host at both locations."""
    before, now = Location.parse(there), Location.parse(here)
    return (before.boot, before.network) == (now.boot, now.network)


@functools.cache
def this_location() -> str:
    """Return the text of the location of this process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        # Not Linux, so no containers; the start times of processes show which ones are from before a restart.
        return str(Location(boot=f"{socket.gethostname()}-{uuid.getnode():x}", processes="", network="", machine=""))
    return str(Location(boot=boot, processes=str(namespace("pid")), network=str(namespace("net")), machine=machine_of(Path("/"))))


def machine_of(root: Path) -> str:
    """Return a hash of what stays the same on a machine below `root`; "" if that does not distinguish it from others.

    Images may contain /etc/machine-id and a host name, so the addresses of the machine's own network cards are needed, too:
    containers have virtual ones, which do not count.
    """
    try:
        parts = [socket.gethostname(), (root / "etc/machine-id").read_text().strip()]
        cards = sorted(
            (card / "address").read_text().strip() for card in (root / "sys/class/net").iterdir() if (card / "device").exists()
        )
    except OSError:
        return ""
    cards = [address for address in cards if address.strip("0:")]
    if not all(parts) or not cards:
        return ""
    return hashlib.sha256("\n".join(["flinkish", *parts, *cards]).encode()).hexdigest()[:32]
