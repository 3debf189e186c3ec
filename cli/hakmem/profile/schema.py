"""The messages of pprof's profile.proto, made at run time: generated code would have to fit the protobuf package's
version.

Field names, numbers and types are those of the format, except that strings are bytes: a path need not be UTF-8, and
protobuf would refuse the whole profile for it. Unused fields (columns) stay protobuf's unknown fields.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, Tuple

from hakmem.errors import Failure

_PACKAGE = "perftools.profiles"

# name, number, type; a star is a repeated field, a capital a message.
_MESSAGES: Dict[str, str] = {
    "Profile": "sample_type 1 *ValueType, sample 2 *Sample, mapping 3 *Mapping, location 4 *Location, "
    "function 5 *Function, string_table 6 *bytes, drop_frames 7 int64, keep_frames 8 int64, time_nanos 9 int64, "
    "duration_nanos 10 int64, period_type 11 ValueType, period 12 int64, comment 13 *int64, "
    "default_sample_type 14 int64",
    "ValueType": "type 1 int64, unit 2 int64",
    "Sample": "location_id 1 *uint64, value 2 *int64, label 3 *Label",
    "Label": "key 1 int64, str 2 int64, num 3 int64, num_unit 4 int64",
    "Mapping": "id 1 uint64, memory_start 2 uint64, memory_limit 3 uint64, file_offset 4 uint64, filename 5 int64, "
    "build_id 6 int64, has_functions 7 bool, has_filenames 8 bool, has_line_numbers 9 bool, has_inline_frames 10 bool",
    "Location": "id 1 uint64, mapping_id 2 uint64, address 3 uint64, line 4 *Line, is_folded 5 bool",
    "Line": "function_id 1 uint64, line 2 int64",
    "Function": "id 1 uint64, name 2 int64, system_name 3 int64, filename 4 int64, start_line 5 int64",
}


@lru_cache(maxsize=None)
def profile_class() -> Any:
    """The class of the message Profile."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise Failure(
            "the Python package protobuf is missing, without which no profile can be read or written"
        ) from None

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            _add_field(message, *_parse(text))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.Profile")
    factory: Any = message_factory
    if hasattr(factory, "GetMessageClass"):
        return factory.GetMessageClass(descriptor)
    return factory.MessageFactory(pool).GetPrototype(descriptor)  # before protobuf 4.22


def _parse(text: str) -> Tuple[str, int, str, bool]:
    name, number, kind = text.split()
    return name, int(number), kind.lstrip("*"), kind.startswith("*")


def _add_field(message: Any, name: str, number: int, kind: str, repeated: bool) -> None:
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind[0].isupper():
        field.type = field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
