"""gdb commands for programs that run on hakmem. In gdb: `source hakmem_gdb.py`, then `help hakmem`.

`hakmem describe EXPRESSION` explains an address: which block it lies in or behind, in use or free, and whose. In a
process it calls the library's own hakmem_describe, which takes no lock; of a core file, where nothing can be called,
and with --read, it reads the descriptors: hakmem_layout, a symbol that stripped libraries have too, says where they
are.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Iterator, NamedTuple, Optional

import gdb

MAGIC = b"hakmem layout 1\0"
HEADER_BYTES = 32
ENTRY_BYTES = 32
ENTRIES_MAX = 24

# The states of a slab and the lives of a heap, as the library's enums number them.
FREE, SMALL, RUN, RUN_TAIL, BIG, NOTHING = 1, 2, 3, 4, 5, 6
ATTACHED, IDLE = 0, 1

# The addresses that a word of live bits covers, as a shift.
LIVE_WORD_SHIFT = 10

# The words of the library's own texts.
NEAR_BYTES = 64


def read(address: int, count: int) -> bytes:
    """Memory of the process or the core file."""
    return bytes(gdb.selected_inferior().read_memory(address, count))


def read_word(address: int) -> int:
    """Eight bytes; both processors put the lowest first."""
    return int(struct.unpack("<Q", read(address, 8))[0])


def byte_text(count: int) -> str:
    """A number of bytes, as the library's texts have it."""
    return "1 byte" if count == 1 else f"{count} bytes"


class Layout:
    """The layout of the library's descriptors."""

    def __init__(self) -> None:
        try:
            start = int(gdb.parse_and_eval("(unsigned long)&hakmem_layout"))
        except gdb.error as error:
            raise gdb.GdbError(f"no hakmem in this program: {error}") from error
        header = read(start, HEADER_BYTES)
        if header[:16] != MAGIC:
            raise gdb.GdbError("this hakmem has another layout than this command knows: take the one of its version")
        self.region_map, self.secret = struct.unpack("<QQ", header[16:])
        self.number: dict[str, int] = {}
        table = read(start + HEADER_BYTES, ENTRIES_MAX * ENTRY_BYTES)
        for name, value in struct.iter_unpack("<24sQ", table):
            self.number[name.rstrip(b"\0").decode()] = value
        self.slab_bytes = 1 << self.number["slab_shift"]

    def leaf(self, address: int) -> int:
        """The start of the descriptors of the address's region."""
        region = address >> self.number["region_shift"]
        distance = read_word(self.region_map + self.number["map.distance"] + 8 * region)
        return (self.region_map + distance) & ((1 << 64) - 1)

    def slab_of(self, address: int) -> int:
        """The descriptor of the slab that the address lies in."""
        within = address & ((1 << self.number["region_shift"]) - 1)
        return self.leaf(address) + (within >> self.number["slab_shift"]) * self.number["slab.size"]

    def field(self, slab: int, name: str, count: int) -> int:
        """A field of `count` bytes."""
        return int.from_bytes(read(slab + self.number[f"slab.{name}"], count), "little")

    def live_bit(self, start: int) -> Optional[bool]:
        """Whether the block is in use, in a hardened library; None in others, which have no such bits."""
        behind = self.number.get("live_words", 0)
        if not behind:
            return None
        number = (start & ((1 << self.number["region_shift"]) - 1)) >> LIVE_WORD_SHIFT
        live, claimed = struct.unpack("<QQ", read(self.leaf(start) + behind + 16 * number, 16))
        return bool((live & ~claimed) >> (start // self.number["block_alignment"] % 64) & 1)

    def state(self, slab: int) -> int:
        """One of the states above."""
        return self.field(slab, "state", 1)


class AddressClass(NamedTuple):
    """What an address lies in: a block that is "live", "free" or "uncut"; or "range" (free memory), "end" (of a slab),
    "none"."""

    kind: str
    start: int
    size: int = 0
    head: int = 0
    head_start: int = 0

    def is_block(self) -> bool:
        """Whether it is one, in use or not."""
        return self.kind in ("live", "free", "uncut")


class Finder:
    """Classifies an address by reading memory, as src/api/address_class.c does in the process."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def classify(self, address: int) -> AddressClass:
        """What the address lies in."""
        layout = self.layout
        if address >> layout.number["address_bits"]:
            return AddressClass("none", address)
        slab = layout.slab_of(address)
        state = layout.state(slab)
        unit = address & -layout.slab_bytes
        if state == SMALL:
            return self.in_span(slab, address, unit)
        if state == NOTHING:
            start = address - address % layout.number["block_alignment"]
            return AddressClass("live" if layout.live_bit(start) else "free", start)
        if state in (RUN, RUN_TAIL):
            head, start = (slab, unit) if state == RUN else self.head(slab, unit)
            return (
                AddressClass("live", start, layout.field(head, "bytes", 8), head, start)
                if head and layout.state(head) == RUN
                else AddressClass("range", unit)
            )
        return AddressClass("range", unit) if state == FREE else self.in_big(address, unit)

    def head(self, slab: int, unit: int) -> tuple[int, int]:
        """The first descriptor of the span or run, and its slab's address; zeroes when that is nonsense."""
        head, size = self.layout.field(slab, "head", 8), self.layout.number["slab.size"]
        count, rest = divmod(slab - head, size)
        if head == 0 or rest or not 0 <= count < self.layout.number["superslab_slabs"]:
            return 0, 0
        return head, unit - count * self.layout.slab_bytes

    def in_span(self, slab: int, address: int, unit: int) -> AddressClass:
        """A block, or the end of a slab that has no whole one."""
        layout = self.layout
        head, head_start = self.head(slab, unit)
        size = layout.field(slab, "block_bytes", 4)
        if not head or not layout.number["block_alignment"] <= size <= layout.number["mid_max_bytes"]:
            return AddressClass("range", unit)
        per_slab = layout.slab_bytes // size
        index = (address - unit) // size
        if index >= per_slab:
            return AddressClass("end", unit + per_slab * size, size, head, head_start)
        start = unit + index * size
        number = (unit - head_start) // layout.slab_bytes * per_slab + index
        if number >= layout.field(head, "carved", 2):
            return AddressClass("uncut", start, size, head, head_start)
        return AddressClass("free" if self.looks_free(start) else "live", start, size, head, head_start)

    def looks_free(self, start: int) -> bool:
        """A live bit tells, or a free block's two words prove each other. (A block in use can hold a copy of them: the
        library would search.)"""
        is_live = self.layout.live_bit(start)
        if is_live is not None:
            return not is_live
        if not self.layout.secret:
            return False
        try:
            following, seal = struct.unpack("<QQ", read(start, 16))
        except gdb.MemoryError:
            return False
        return bool(following ^ seal == read_word(self.layout.secret))

    def in_big(self, address: int, unit: int) -> AddressClass:
        """Finds a large block's first slab, the only one with a descriptor: the next one below. Each of the block's
        regions has a leaf."""
        layout = self.layout
        size, state_at = layout.number["slab.size"], layout.number["slab.state"]
        nothing = AddressClass("none", unit)
        at = unit
        while at >= 0 and (leaf := layout.leaf(at)) != layout.region_map:
            count = (layout.slab_of(at) - leaf) // size + 1
            states = read(leaf, count * size)[state_at::size]
            for index in reversed(range(count)):
                if states[index]:
                    return self.reaching(
                        leaf + index * size, states[index], at - (count - 1 - index) * layout.slab_bytes, address
                    )
            at -= count * layout.slab_bytes
        return nothing

    def reaching(self, slab: int, state: int, start: int, address: int) -> AddressClass:
        """The large block or free extent that begins there, if it reaches up to the address."""
        nothing = AddressClass("none", address & -self.layout.slab_bytes)
        size = self.layout.field(slab, "bytes", 8)
        if address - start >= size:
            return nothing
        if state == BIG:
            return AddressClass("live", start, size)
        is_range = state == FREE and self.layout.field(slab, "superslab", 8) == 0
        return AddressClass("range", address & -self.layout.slab_bytes) if is_range else nothing

    def before(self, address_class: AddressClass) -> Optional[AddressClass]:
        """The block that ends where the address_class begins."""
        if address_class.start == 0 or address_class.start >> self.layout.number["address_bits"]:
            return None
        found = self.classify(address_class.start - 1)
        ends_there = found.kind in ("live", "free") and found.start + found.size == address_class.start
        return found if ends_there else None


class Words:
    """The line for an address class (src/inspect/describe.c)."""

    def __init__(self, finder: Finder) -> None:
        self.finder = finder
        self.layout = finder.layout

    def describe(self, address: int) -> str:
        """The whole line."""
        address_class = self.finder.classify(address)
        what, neighbour = self.what(address_class, address), self.neighbour(address_class, address)
        return f"{address:#x} is {what}{neighbour}{self.home(address_class)}"

    def what(self, address_class: AddressClass, address: int) -> str:
        """The block, or the reason why there is none."""
        if address_class.is_block():
            offset = address - address_class.start
            where = f"{byte_text(offset)} into" if offset else "the start of"
            kind = "" if address_class.kind == "uncut" else f"{address_class.kind} "
            at = f" at {address_class.start:#x}" if offset else ""
            history = "" if kind else " that was never handed out"
            return f"{where} a {kind}block of {byte_text(address_class.size)}{at}{history}"
        if address_class.kind == "range":
            return "in free memory"
        if address_class.kind == "end":
            return "behind the last block of a slab"
        if address == 0:
            return "NULL"
        if address < self.layout.slab_bytes:
            return f"NULL plus {byte_text(address)}, which is never mapped"
        is_address = address >> self.layout.number["address_bits"] == 0
        return "not in hakmem's memory" if is_address else "not an address that a program can have"

    def neighbour(self, address_class: AddressClass, address: int) -> str:
        """The block that it lies a little behind."""
        offset = address - address_class.start
        if address < self.layout.slab_bytes or (address_class.kind == "live" and offset == 0):
            return ""
        if address_class.is_block() and offset >= NEAR_BYTES:
            return ""
        before = self.finder.before(address_class)
        if before is None:
            return ""
        past = address - before.start - before.size
        there = f"a {before.kind} block of {byte_text(before.size)} at {before.start:#x}"
        return f", {byte_text(past)} past the end of {there}"

    def home(self, address_class: AddressClass) -> str:
        """Its span and that one's heap, its run, or that it is a large block."""
        if not address_class.head:
            return " (large)" if address_class.kind == "live" and address_class.size else ""
        count = self.layout.field(address_class.head, "slab_count", 1)
        slabs = f"{count} slab{'' if count == 1 else 's'} at {address_class.head_start:#x}"
        if address_class.size > self.layout.number["mid_max_bytes"]:
            return f" (run of {slabs})"
        owner = self.layout.field(address_class.head, "owner", 8)
        heap = f", heap {owner:#x} {self.owner(owner)}" if owner else ""
        return f" ({self.class_of(address_class.size)}, span of {slabs}{heap})"

    def class_of(self, size: int) -> str:
        """The class's number, as src/policy/size_class.h counts."""
        number = self.layout.number
        if size <= number["tiny_max_bytes"]:
            return f"tiny class {size // number['block_alignment']}"
        shift = number["mid_step_shift"]
        step = (size - 1).bit_length() - 1 - shift
        return f"mid class {(step << shift) + ((size - 1) >> step) + 1}"

    def owner(self, heap: int) -> str:
        """The state of the heap; the thread itself cannot be read."""
        life = read(heap + self.layout.number["heap.life"], 1)[0]
        if life == ATTACHED:
            return "of a live thread"
        return "whose thread has ended" if life == IDLE else "whose thread vanished in a fork"


# ---- In a process: a call of the library.


@contextlib.contextmanager
def setting(name: str, value: str) -> Iterator[None]:
    """A setting of gdb's, for a moment."""
    before = gdb.parameter(name)
    gdb.execute(f"set {name} {value}", to_string=True)
    try:
        yield
    finally:
        text = before if isinstance(before, str) else "on" if before else "off"
        gdb.execute(f"set {name} {text}", to_string=True)


def call(address: int) -> str:
    """The answer of hakmem_describe in a process.

    The other threads stop meanwhile. gdb.error where no call is possible.
    """
    bytes_of_text = 4096
    map_pages = "((void *(*)(void *, unsigned long, int, int, int, long))mmap)"
    with setting("scheduler-locking", "on"), setting("unwindonsignal", "on"):
        text = int(gdb.parse_and_eval(f"(unsigned long){map_pages}(0, {bytes_of_text}, 3, 0x22, -1, 0)"))
        if text >= (1 << 64) - 4096:
            raise gdb.error("the program has no room for the text")
        try:
            describe = "((unsigned long (*)(const void *, char *, unsigned long))hakmem_describe)"
            gdb.parse_and_eval(f"{describe}((void *){address}, (char *){text}, {bytes_of_text})")
            return read(text, bytes_of_text).split(b"\0", 1)[0].decode()
        finally:
            gdb.parse_and_eval(f"((int (*)(void *, unsigned long))munmap)((void *){text}, {bytes_of_text})")


class HakmemCommand(gdb.Command):
    """Commands about the memory of a program that runs on hakmem."""

    def __init__(self) -> None:
        super().__init__("hakmem", gdb.COMMAND_DATA, prefix=True)


class DescribeCommand(gdb.Command):
    """hakmem describe [--read] EXPRESSION: what the address is: which block, in use or free, and whose.

    In a process the command calls hakmem_describe. In a core file, and with --read, it reads the descriptors:
    then a block counts as free when its first words or a hardened library's live bit say so, and the thread of a
    heap is unknown."""

    def __init__(self) -> None:
        super().__init__("hakmem describe", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Run by gdb."""
        words = argument.split(None, 1)
        only_read = bool(words) and words[0] == "--read"
        expression = " ".join(words[1:]) if only_read else argument
        if not expression.strip():
            raise gdb.GdbError("hakmem describe: of which address?")
        address = int(gdb.parse_and_eval(expression).cast(gdb.lookup_type("unsigned long")))
        if not only_read:
            try:
                print(call(address))
                return
            except gdb.error:
                pass
        print(Words(Finder(Layout())).describe(address))


HakmemCommand()
DescribeCommand()
