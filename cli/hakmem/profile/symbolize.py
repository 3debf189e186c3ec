"""Gives a profile's addresses their names. An unknown one is shown as `module+0x…`, and a note has the reason."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterable, List, Optional, Tuple

from hakmem.profile import debuginfod, symbol_package
from hakmem.profile.debug_files import Search
from hakmem.profile.demangle import demangle_all
from hakmem.profile.dwarf import DebugInfo, Place
from hakmem.profile.model import Frame, Location, Mapping, Profile
from hakmem.profile.module import ElfModule
from hakmem.profile.perf_map import PerfMap
from hakmem.profile.symbols import SymbolTable

_MANGLED = ("_Z", "_R")


class Symbolizer:
    """Keeps the modules that it has read: several profiles of one program cost little more than one."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._modules: Dict[Tuple[str, str], _Module] = {}
        # A note for each module with unnamed addresses.
        self.notes: Dict[str, str] = {}
        self._perf_map = PerfMap(search.perf_maps)

    def __enter__(self) -> Symbolizer:
        return self

    def __exit__(self, *_: Any) -> None:
        for module in self._modules.values():
            module.close()
        self._search.client.close()

    def symbolize(self, profile: Profile) -> None:
        """In place. What has names already keeps them."""
        waiting: Dict[int, List[Location]] = {}
        for location in profile.locations:
            mapping = location.mapping
            if mapping is not None and not location.frames and not mapping.has_functions and _is_file(mapping):
                waiting.setdefault(id(mapping), []).append(location)
        places: List[Tuple[Location, List[Place]]] = []
        for mapping in profile.mappings:
            if id(mapping) in waiting:
                places += self._in_mapping(mapping, waiting[id(mapping)])
        readable = demangle_all(place.name for _, found in places for place in found)
        for location, found in places:
            location.frames = [
                Frame(readable[place.name] or location.where(), place.name, place.file, place.line) for place in found
            ]
        for location in profile.locations:
            if not location.frames:
                named = self._perf_map.frame(location.address) if _is_written_code(location) else None
                location.frames = [named or Frame(location.where())]
        for number, trouble in enumerate(self._search.client.troubles):
            self.notes[f"debuginfod {number}"] = trouble

    def _in_mapping(self, mapping: Mapping, locations: List[Location]) -> List[Tuple[Location, List[Place]]]:
        key = (mapping.path, mapping.build_id)
        if key not in self._modules:
            self._modules[key] = _Module(mapping, self._search)
        module = self._modules[key]
        found = module.places(mapping, [location.address for location in locations])
        self._take_notes(mapping, module, len(locations) - len(found), len(locations))
        mapping.has_functions = bool(found)
        places = [(location, found[location.address]) for location in locations if location.address in found]
        with_lines = [place for _, several in places for place in several if place.line]
        mapping.has_filenames = mapping.has_lines = bool(with_lines)
        mapping.has_inlined = module.has_debug
        return places

    def _take_notes(self, mapping: Mapping, module: _Module, missing: int, all_of_them: int) -> None:
        where = mapping.path
        if module.trouble:
            count = "1 address" if all_of_them == 1 else f"{all_of_them} addresses"
            self.notes[where] = f"{where}: {module.trouble}; {count} in it without a name"
        elif module.complaint:
            self.notes[where] = f"{where}: {module.complaint}"
        elif missing and not module.has_debug:
            self.notes[where] = (
                f"{where}: no debug information, and {missing} of {all_of_them} addresses are in none of its symbols"
                f"{_how_to_get_them(where, module.build_id)}"
            )


def _how_to_get_them(path: str, build_id: str) -> str:
    """The package with the symbols, and the servers that could have them."""
    package = symbol_package.advice(path)
    if not build_id:
        return f": {package}" if package else ""
    if debuginfod.servers():
        told = f"no server of {debuginfod.VARIABLE} has build ID {build_id}"
    else:
        told = f"or set {debuginfod.VARIABLE}" if package else f"set {debuginfod.VARIABLE} (build ID {build_id})"
    return ": " + ", ".join(part for part in (package, told) if part)


def _is_written_code(location: Location) -> bool:
    """Whether no file has the code: a runtime wrote it."""
    return location.mapping is None or not _is_file(location.mapping)


def _is_file(mapping: Mapping) -> bool:
    return mapping.path.startswith("/") and not mapping.path.startswith("//")


class _Module:
    """A mapped file with its symbols and debug information."""

    def __init__(self, mapping: Mapping, search: Search) -> None:
        self._module, self._debug, self.trouble = search.open(mapping)
        self.build_id = mapping.build_id.lower() or (self._module.build_id if self._module is not None else "")
        self._dwarf: Optional[DebugInfo] = None
        self._tables: List[SymbolTable] = []
        self.complaint = ""
        for file in {id(one): one for one in (self._module, self._debug) if one is not None}.values():
            try:
                self._tables.append(file.symbols())
            except Exception as error:  # pyelftools raises any exception for a damaged file
                self.complaint = f"its symbols cannot be read ({type(error).__name__})"
        if self._debug is not None and self._debug.has_dwarf():
            try:
                self._dwarf = DebugInfo(self._debug.elf)
            except Exception as error:  # as above, and unknown compressions
                self.complaint = f"its debug information cannot be read ({type(error).__name__}: {error})"

    @property
    def has_debug(self) -> bool:
        """Whether there is debug information that can be read."""
        return self._dwarf is not None

    def close(self) -> None:
        """Closes the files."""
        for file in (self._module, self._debug):
            if file is not None:
                with contextlib.suppress(OSError, ValueError):
                    file.close()

    def places(self, mapping: Mapping, addresses: Iterable[int]) -> Dict[int, List[Place]]:
        """The functions at each address, the innermost first; unknown addresses are left out."""
        in_file = {address: self._in_file(mapping, address) for address in addresses}
        wanted = [address for address in in_file.values() if address is not None]
        by_debug = self._dwarf.places(wanted) if self._dwarf is not None else {}
        if self._dwarf is not None and self._dwarf.complaint:
            self.complaint = self._dwarf.complaint
        found: Dict[int, List[Place]] = {}
        for address, inside in in_file.items():
            if inside is None:
                continue
            places = self._completed(by_debug.get(inside, []), inside)
            if places:
                found[address] = places
        return found

    def _completed(self, places: List[Place], address: int) -> List[Place]:
        """Adds the symbol table's name of the function itself, where debug information has none or a short one."""
        own = places[-1] if places else Place("", "", 0)
        if not own.name.startswith(_MANGLED):
            symbol = next((name for table in self._tables if (name := table.find(address))), "")
            if symbol and (not own.name or symbol.startswith(_MANGLED)):
                own = own._replace(name=symbol)
        if not own.name and not own.file:
            return []
        return [*places[:-1], own]

    def _in_file(self, mapping: Mapping, address: int) -> Optional[int]:
        offset = address - mapping.start + mapping.offset
        if self._module is not None:
            return self._module.address_of(offset)
        return _of_debug_file(self._debug, mapping, offset) if self._debug is not None else None


def _of_debug_file(debug: ElfModule, mapping: Mapping, offset: int) -> Optional[int]:
    """The module itself is gone: its debug file may still have its segments, else the one with the code must begin the
    mapping."""
    found = debug.address_of(offset)
    return found if found is not None else debug.address_by_page(mapping.offset, offset - mapping.offset)
