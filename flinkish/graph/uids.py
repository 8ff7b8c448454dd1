"""Assigns the uids that identify operators in checkpoints: the user's own, else a hash of the operator's place in the program.

The hash must be the same when the same program is built again, also at another parallelism, with other names, or with an
unrelated branch added; so it does not depend on any of these. It depends on the kind of the operator; for each input, on the uid
of the operator that it reads and on whether it reads a side output; and on a running number that separates operators for which
all of this is equal.

Differs from Flink: its hash holds the position in a breadth-first walk and the number of chained outputs, so a new branch or a
disabled chain renames the operators after it. Here they keep their names, and their state.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from flinkish.common.errors import InvalidProgramError
from flinkish.common.ids import OperatorUid


class InputIdentity(NamedTuple):
    """The properties of one input connection that help to identify an operator."""

    input_index: int
    uid: OperatorUid
    side_output: str | None


class UidAssigner:
    """Assigns uids to the operators of one program, in topological order, and rejects duplicates."""

    def __init__(self, *, generate: bool = True) -> None:
        self._generate = generate
        self._alike: Counter[str] = Counter()
        self._names: dict[OperatorUid, str] = {}

    def assign(
        self, *, name: str, kind: str, uid: str | None, uid_hash: str | None, inputs: Sequence[InputIdentity]
    ) -> OperatorUid:
        """Return the uid of an operator.

        `uid_hash` takes precedence over `uid`. Raises InvalidProgramError if another operator has the same uid, or if a uid
        must be generated but generation is switched off.
        """
        # Operators with a uid of their own are counted too, so that setting a uid does not rename similar operators.
        alike = structural_hash(kind, inputs, -1)
        structure = structural_hash(kind, inputs, self._alike[alike])
        self._alike[alike] += 1
        if uid_hash is not None:
            result = OperatorUid(uid_hash.lower())
        elif uid is not None:
            result = OperatorUid(uid)
        elif self._generate:
            result = OperatorUid(structure)
        else:
            raise InvalidProgramError(
                f"operator {name!r} has no uid, and generating uids is switched off",
                hint="call uid('...') on it, or enable_auto_generated_uids().",
            )
        if result in self._names:
            raise InvalidProgramError(
                f"the operators {self._names[result]!r} and {name!r} have the same uid {result!r}; a uid names one operator",
                hint="give each operator a uid of its own: its state is stored and found by it.",
            )
        self._names[result] = name
        return result


def structural_hash(kind: str, inputs: Sequence[InputIdentity], number: int) -> str:
    """Return 32 hex digits for an operator's place in the program; the order of connections within one input does not matter."""
    parts = [kind, str(number)]
    for given in sorted(inputs, key=lambda identity: (identity.input_index, identity.uid, identity.side_output or "")):
        parts += [str(given.input_index), given.uid, "main" if given.side_output is None else f"side {given.side_output}"]
    # Each part has its length in front, so that two different lists never give the same text.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"flinkish uid").hexdigest()
