"""Writes a profile for pprof: profile.proto, gzipped."""

from __future__ import annotations

import gzip
from typing import Any, Dict, Tuple

from hakmem.profile.model import Frame, Location, Mapping, Profile, Sample
from hakmem.profile.schema import profile_class


def to_bytes(profile: Profile) -> bytes:
    """The same profile always gives the same bytes."""
    return gzip.compress(_Writer(profile).message.SerializeToString(deterministic=True), mtime=0)


class _Writer:
    """Gives everything its number."""

    def __init__(self, profile: Profile) -> None:
        self.message = profile_class()()
        self.strings: Dict[str, int] = {"": 0}
        self.functions: Dict[Tuple[str, str, str], int] = {}
        self.mappings = {id(one): number for number, one in enumerate(profile.mappings, 1)}
        self.locations = {id(one): number for number, one in enumerate(profile.locations, 1)}
        for name, unit in profile.sample_types:
            self._type(self.message.sample_type.add(), name, unit)
        for mapping in profile.mappings:
            self._mapping(mapping)
        for location in profile.locations:
            self._location(location)
        for sample in profile.samples:
            self._sample(sample)
        self._header(profile)
        # Pyroscope refuses bytes that are no UTF-8.
        self.message.string_table.extend(text.encode("utf-8", "backslashreplace") for text in self.strings)

    def _header(self, profile: Profile) -> None:
        message = self.message
        self._type(message.period_type, *profile.period_type)
        message.period = profile.period
        message.time_nanos = profile.time_nanos
        message.duration_nanos = profile.duration_nanos
        message.comment.extend(self._string(comment) for comment in profile.comments)
        message.default_sample_type = self._string(profile.default_sample_type)
        message.drop_frames = self._string(profile.drop_frames)
        message.keep_frames = self._string(profile.keep_frames)

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _type(self, target: Any, name: str, unit: str) -> None:
        target.type = self._string(name)
        target.unit = self._string(unit)

    def _mapping(self, mapping: Mapping) -> None:
        self.message.mapping.add(
            id=self.mappings[id(mapping)],
            memory_start=mapping.start,
            memory_limit=mapping.limit,
            file_offset=mapping.offset,
            filename=self._string(mapping.path),
            build_id=self._string(mapping.build_id),
            has_functions=mapping.has_functions,
            has_filenames=mapping.has_filenames,
            has_line_numbers=mapping.has_lines,
            has_inline_frames=mapping.has_inlined,
        )

    def _location(self, location: Location) -> None:
        mapping = self.mappings[id(location.mapping)] if location.mapping is not None else 0
        target = self.message.location.add(
            id=self.locations[id(location)], mapping_id=mapping, address=location.address
        )
        for frame in location.frames:
            target.line.add(function_id=self._function(frame), line=frame.line)

    def _function(self, frame: Frame) -> int:
        key = (frame.function, frame.system_name, frame.file)
        number = self.functions.get(key)
        if number is None:
            number = self.functions[key] = len(self.functions) + 1
            name, system_name, file = (self._string(text) for text in key)
            self.message.function.add(id=number, name=name, system_name=system_name, filename=file)
        return number

    def _sample(self, sample: Sample) -> None:
        target = self.message.sample.add(
            location_id=[self.locations[id(one)] for one in sample.locations], value=sample.values
        )
        for label in sample.labels:
            target.label.add(
                key=self._string(label.key),
                str=self._string(label.text),
                num=label.number,
                num_unit=self._string(label.unit),
            )
