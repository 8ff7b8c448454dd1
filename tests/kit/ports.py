"""Ports for servers that must know their port before they start, or that start again at the same one."""

from __future__ import annotations

import random
import socket

#: Below the ports that Linux, macOS and Windows give to whoever asks for any, so that nobody takes one before its server does.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free."""
    # Test processes choose at the same time: not by numbers that a seed makes the same in each.
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("100 ports of 12,000 are all taken")
