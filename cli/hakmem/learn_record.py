"""The file of HAKMEM_LEARN_FILE: what a program learned about dirty memory. src/policy/learn_record.c has the format.

All numbers have the lowest byte first.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Optional, Tuple

from hakmem.errors import Failure, cannot_read

MAGIC = b"hkLEARN\n"
VERSION = 1
CANDIDATES = 12
LARGEST = (1 << 64) - 1
# The costs and the candidates of src/policy/price.c; tests/cli/test_learn_merge.py compares them.
PURGE_NS, FAULT_NS = 90_000, 360_000
SIXTY_FOURTHS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)

_START = struct.Struct("<8sI")  # magic, version
_RECORD = struct.Struct(f"<8sIHBB6Q{CANDIDATES}Q")  # the fields of Record, before the checksum
_CHECKSUM = struct.Struct("<I")
LENGTH = _RECORD.size + _CHECKSUM.size


class State(IntEnum):
    """hk_learn_state_t."""

    LEARNING = 0
    FROZEN = 1
    CANARY = 2


@dataclass(frozen=True)
class Record:
    """What one learner knows. Costs and stakes are in KiB x ms; older ones count less (src/policy/learn.h)."""

    price: int  # ns of CPU time for a MiB-second
    state: State
    leader: int
    epoch: int
    usual_stake: int
    staked: int
    frozen_owed: int
    frozen_staked: int
    owed: Tuple[int, ...]

    def to_bytes(self) -> bytes:
        """The file's content."""
        numbers = (self.price, self.epoch, self.usual_stake, self.staked, self.frozen_owed, self.frozen_staked)
        content = _RECORD.pack(MAGIC, VERSION, LENGTH, self.state, self.leader, *numbers, *self.owed)
        return content + _CHECKSUM.pack(zlib.crc32(content))


def parse(content: bytes, name: str) -> Record:
    """Returns the record, or raises a Failure with the reason, in the library's own words."""
    if len(content) < _START.size or not content.startswith(MAGIC):
        raise Failure(f"{name} is no record of what was learned")
    version = _START.unpack_from(content)[1]
    if version != VERSION:
        raise Failure(f"{name} has version {version} of the format: this tool reads version {VERSION}")
    if len(content) != LENGTH or _CHECKSUM.unpack(content[-4:])[0] != zlib.crc32(content[:-4]):
        raise Failure(f"{name} is damaged")
    _, _, length, state, leader, *numbers = _RECORD.unpack(content[:-4])
    if length != LENGTH or leader >= CANDIDATES or state > State.CANARY:
        raise Failure(f"{name} is damaged")
    price, epoch, usual_stake, staked, frozen_owed, frozen_staked, *owed = numbers
    if price == 0:  # no run has it
        raise Failure(f"{name} is damaged")
    return Record(
        price, State(state), leader, epoch, usual_stake, staked, frozen_owed, frozen_staked, tuple(owed)
    )  # fmt: skip


def read(name: str) -> Record:
    """Reads a file."""
    try:
        with open(name, "rb") as file:
            return parse(file.read(LENGTH + 1), name)
    except OSError as error:
        raise cannot_read(name, error) from None


def timeout_ms(price: int, candidate: int) -> Optional[int]:
    """The time-out of a candidate at this price, as hk_price_init computes it. None is never."""
    if candidate == CANDIDATES - 1:
        return None
    break_even_ms = sum(max(1, ns * 1000 // price) for ns in (PURGE_NS, FAULT_NS))
    return break_even_ms * SIXTY_FOURTHS[candidate] // 64
