"""The layout of a DWARF unit's entries: for each abbreviation, the attributes to read and the steps over the rest.

pyelftools reads each entry whole, in about ten microseconds; a big C++ unit has hundreds of thousands, of
which a symbolizer needs a few. Units, abbreviations, names and line tables are left to pyelftools.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

# The kinds of a skipping step that is no number of bytes.
ULEB, STRING, BLOCK, BLOCK1, BLOCK2, BLOCK4 = -1, -2, -3, -4, -5, -6

_FIXED = {
    1: "data1 ref1 flag strx1 addrx1",
    2: "data2 ref2 strx2 addrx2",
    3: "strx3 addrx3",
    4: "data4 ref4 strx4 addrx4 ref_sup4",
    8: "data8 ref8 ref_sig8 ref_sup8",
    16: "data16",
    0: "flag_present implicit_const",
}
_BYTES = {f"DW_FORM_{name}": size for size, names in _FIXED.items() for name in names.split()}
_OFFSETS = {
    f"DW_FORM_{name}" for name in ["strp", "sec_offset", "line_strp", "GNU_ref_alt", "GNU_strp_alt", "strp_sup"]
}  # as long as the unit's own offsets
_STEPS = {
    "DW_FORM_string": STRING,
    "DW_FORM_block": BLOCK,
    "DW_FORM_exprloc": BLOCK,
    "DW_FORM_block1": BLOCK1,
    "DW_FORM_block2": BLOCK2,
    "DW_FORM_block4": BLOCK4,
    **{
        f"DW_FORM_{name}": ULEB
        for name in [
            "udata",
            "sdata",
            "ref_udata",
            "strx",
            "addrx",
            "loclistx",
            "rnglistx",
            "GNU_addr_index",
            "GNU_str_index",
        ]
    },
}

FUNCTION, INLINED, UNIT, OTHER = range(4)
_KINDS = {
    "DW_TAG_subprogram": FUNCTION,
    "DW_TAG_inlined_subroutine": INLINED,
    "DW_TAG_compile_unit": UNIT,
    "DW_TAG_partial_unit": UNIT,
    "DW_TAG_skeleton_unit": UNIT,
}
_WANTED = {
    f"DW_AT_{name}"
    for name in [
        "low_pc",
        "high_pc",
        "ranges",
        "call_file",
        "call_line",
        "sibling",
        "addr_base",
        "rnglists_base",
        "GNU_addr_base",
        "GNU_ranges_base",
    ]
}
# Types have no code in them: their functions are declarations there. Where the compiler says where they end, they are
# passed over.
_TYPES = {
    f"DW_TAG_{name}_type" for name in ["class", "structure", "union", "enumeration", "subroutine", "array", "interface"]
}


class Unsupported(Exception):
    """An unknown form: the unit cannot be read."""


class Field(NamedTuple):
    """An attribute that is read: its name without DW_AT_, its form, its size or step, and the value that stands in the
    plan."""

    name: str
    form: str
    step: int
    constant: int


class Plan(NamedTuple):
    """One abbreviation. `fields` and `steps` alternate: steps[i] lead to fields[i], the last ones past the end."""

    kind: int
    has_children: bool
    jumps: bool
    fields: Tuple[Field, ...]
    steps: Tuple[Tuple[int, ...], ...]
    skip: Tuple[int, ...]


class Plans:
    """The plans of one unit, made on first use."""

    def __init__(self, unit: Any) -> None:
        self._table = unit.get_abbrev_table()
        self._address_bytes: int = unit["address_size"]
        self._offset_bytes = 8 if unit.dwarf_format() == 64 else 4
        self._version: int = unit["version"]
        self._plans: Dict[int, Plan] = {}

    def __getitem__(self, code: int) -> Plan:
        plan = self._plans.get(code)
        if plan is None:
            plan = self._plans[code] = self._make(self._table.get_abbrev(code))
        return plan

    def _make(self, abbreviation: Any) -> Plan:
        tag = abbreviation["tag"]
        kind = _KINDS.get(tag, OTHER)
        is_type = tag in _TYPES
        fields: List[Field] = []
        steps: List[List[int]] = [[]]
        skip: List[int] = []
        for spec in abbreviation["attr_spec"]:
            if spec.form == "DW_FORM_null" or spec.name == "DW_AT_null":
                continue
            step = self._step(spec.form)
            _append(skip, step)
            if (kind != OTHER and spec.name in _WANTED) or (is_type and spec.name == "DW_AT_sibling"):
                constant = spec.value if spec.form == "DW_FORM_implicit_const" else 0
                fields.append(Field(spec.name[6:], spec.form, step, constant))
                steps.append([])
            else:
                _append(steps[-1], step)
        return Plan(
            kind,
            abbreviation["children_flag"] in (1, "DW_CHILDREN_yes"),
            is_type and bool(fields),
            tuple(fields),
            tuple(tuple(one) for one in steps),
            tuple(skip),
        )

    def _step(self, form: str) -> int:
        step: Optional[int] = _BYTES.get(form, _STEPS.get(form))
        if step is not None:
            return step
        if form == "DW_FORM_addr":
            return self._address_bytes
        if form == "DW_FORM_ref_addr":
            return self._address_bytes if self._version <= 2 else self._offset_bytes
        if form in _OFFSETS:
            return self._offset_bytes
        raise Unsupported(str(form))


def _append(steps: List[int], step: int) -> None:
    """Neighbours of fixed size become one step."""
    if step >= 0 and steps and steps[-1] >= 0:
        steps[-1] += step
    elif step != 0:
        steps.append(step)
