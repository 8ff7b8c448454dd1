"""Run many worlds, or one again: python -m tests.simulation [--seeds N] [--first N] [--seed N]."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.invariants import Violation
from tests.simulation.world import run, simulated


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000_000, help="number of worlds")
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--seed", type=int, help="replay this world and print its trace")
    arguments = parser.parse_args()
    with simulated():
        if arguments.seed is not None:
            return _replay(arguments.seed)
        return _run_many(arguments.first, arguments.seeds)


def _replay(seed: int) -> int:
    try:
        world = run(seed)
    except Violation as error:
        print(error)
        return 1
    print(*world.trace, sep="\n")
    print(world, dict(world.counts), sep="\n")
    return 0


def _run_many(first: int, seeds: int) -> int:
    counts: Counter[str] = Counter()
    started = shown = time.monotonic()
    for seed in range(first, first + seeds):
        try:
            counts += run(seed).counts
        except Violation as error:
            print(error)
            return 1
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            done = seed - first + 1
            print(f"{done:,} of {seeds:,} worlds, {(shown - started) / done * 1000:.1f} ms each", flush=True)
    print(f"{seeds:,} worlds in {time.monotonic() - started:.0f} s, no violation. What happened in them:")
    for what, count in sorted(counts.items()):
        print(f"{count:12,} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
