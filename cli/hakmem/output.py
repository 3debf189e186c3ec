"""Files that are written whole or not at all, and refused before the work begins when they cannot be written."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Callable, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from hakmem.errors import EXIT_USAGE, Failure, say

Content = Union[str, bytes]

_NEW_FILE_MODE = 0o666
_DESCRIPTOR = re.compile(r"/proc/\d+(?:/task/\d+)?/fd/\d+")
_MOST_LINKS = 40  # the kernel's
# File systems and kernels without O_TMPFILE.
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS)


class OutputFile:
    """A file to be written later. Until `write` it has no name: where this process is killed, nothing stays behind.

    A device or pipe (/dev/null) and a name of a descriptor (/dev/stdout) are written to directly, `-` is standard
    output."""

    def __init__(self, name: str) -> None:
        if name == "--":  # `--json -- PROGRAM`
            raise Failure("the FILE of an option is missing before --", EXIT_USAGE)
        if not name:
            raise Failure("the FILE of an option is empty", EXIT_USAGE)
        self.name = name
        self.is_written = False
        self._nameless: Optional[int] = None
        self._target = name if name == "-" else _real_path(name)
        self._folder, self._base = os.path.split(self._target)
        self._descriptor_name = _descriptor_name(name)
        self._is_direct = name == "-" or self._is_special()
        if self._is_direct:
            return
        if os.path.isdir(self._target):
            raise Failure(f"{name} is a directory")
        if os.path.exists(self._target) and not os.access(self._target, os.W_OK):
            raise Failure(f"cannot write {name}: permission denied")
        try:
            self._nameless = self._open_nameless()
        except OSError as error:
            raise Failure(f"cannot write {name}: {error.strerror}") from None

    def _open_nameless(self) -> Optional[int]:
        """A file without a name, or None where the file system has none: then only the folder is tried out."""
        try:
            return os.open(self._folder, os.O_TMPFILE | os.O_WRONLY, 0o600)
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
        descriptor, path = self._open_temporary()
        os.unlink(path)
        os.close(descriptor)
        return None

    def _open_temporary(self) -> Tuple[int, str]:
        return tempfile.mkstemp(prefix=f".{self._base}.", suffix=Path(self._base).suffix, dir=self._folder)

    def is_same(self, other: OutputFile) -> bool:
        """Whether one of two results would replace the other, or stand behind it on standard output. A device, a pipe
        or a descriptor takes both."""
        return self._target == other._target and (self.name == "-" or not (self._is_direct and other._is_direct))

    def _is_special(self) -> bool:
        try:
            mode = os.stat(self.name).st_mode
            return not stat.S_ISDIR(mode) and (not stat.S_ISREG(mode) or self._descriptor_name is not None)
        except OSError:
            return False

    def _mode(self) -> int:
        try:
            return stat.S_IMODE(os.stat(self._target).st_mode)
        except OSError:
            mask = os.umask(0)
            os.umask(mask)
            return _NEW_FILE_MODE & ~mask

    def write(self, content: Content) -> None:
        """Writes the whole text at once, in place of an older file."""
        data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        try:
            if self.name == "-":
                sys.stdout.flush()
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            elif self._is_direct:
                with open(self._open_direct(), "wb") as file:
                    file.write(data)
            else:
                self._write_whole(data)
        except OSError as error:
            self.discard()
            raise Failure(f"cannot write {self.name}: {error.strerror}") from None
        self.is_written = True

    def _open_direct(self) -> int:
        """Never truncates. A descriptor of this process is written to at its position, which its other owners share."""
        if self._descriptor_name is None:
            return os.open(self.name, os.O_WRONLY)
        folder, number = os.path.split(self._descriptor_name)
        if os.path.samefile(folder, "/proc/self/fd"):
            sys.stdout.flush()
            return os.dup(int(number))
        return os.open(self._descriptor_name, os.O_WRONLY | os.O_APPEND)

    def _write_whole(self, data: bytes) -> None:
        """Gives the nameless file its name at the end. One that replaces another has a temporary name for a moment."""
        if self._nameless is not None:
            descriptor, self._nameless = self._nameless, None
            with open(descriptor, "wb") as file:
                self._fill(file, data)
                if self._name(descriptor):
                    return
        descriptor, path = self._open_temporary()
        try:
            with open(descriptor, "wb") as file:
                self._fill(file, data)
            os.replace(path, self._target)
        except BaseException:
            with suppress(OSError):
                os.unlink(path)
            raise

    def _fill(self, file: BinaryIO, data: bytes) -> None:
        os.fchmod(file.fileno(), self._mode())
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

    def _name(self, nameless: int) -> bool:
        """Whether the file has its name now; False where /proc is not there to name it by."""
        path = os.path.join(self._folder, f".{self._base}.{os.getpid()}.{time.monotonic_ns()}")
        try:
            numbers = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            # With a folder's number Python calls linkat, which follows the link that the number is.
            try:
                os.link(str(nameless), self._target, src_dir_fd=numbers, follow_symlinks=True)
            except FileExistsError:
                os.link(str(nameless), path, src_dir_fd=numbers, follow_symlinks=True)
                os.replace(path, self._target)
        finally:
            os.close(numbers)
        return True

    def discard(self) -> None:
        """Forgets the file, if it was not written."""
        if self._nameless is not None:
            with suppress(OSError):
                os.close(self._nameless)
            self._nameless = None


def _real_path(name: str) -> str:
    try:
        return os.path.realpath(name)
    except FileNotFoundError:  # os.getcwd
        raise Failure(f"cannot write {name}: the current folder was removed") from None


def _descriptor_name(name: str) -> Optional[str]:
    """The name below /proc that /dev/stderr, /dev/fd/2 or a link to them stands for. None for other names. It is itself
    a link to the file behind the descriptor, which may have been opened for appending, or lost its name."""
    for _ in range(_MOST_LINKS):
        folder, base = os.path.split(name)
        folder = os.path.realpath(folder)
        name = os.path.join(folder, base)
        if _DESCRIPTOR.fullmatch(name):
            return name
        try:
            name = os.path.join(folder, os.readlink(name))
        except OSError:
            return None
    return None


@contextmanager
def reserve(*names: Optional[str]) -> Iterator[list[Optional[OutputFile]]]:
    """The files of these names, None for None. Unwritten ones are discarded at the end. Two results in one file are
    wrong usage."""
    with ExitStack() as stack:
        files: list[Optional[OutputFile]] = []
        for name in names:
            file = OutputFile(name) if name is not None else None
            if file is not None:
                stack.callback(file.discard)
                if any(one is not None and one.is_same(file) for one in files):
                    where = "on standard output" if file.name == "-" else f"in {file.name}"
                    raise Failure(f"two results would be {where}: each needs a file of its own", EXIT_USAGE)
            files.append(file)
        yield files


def refuse_stdout(named: Mapping[str, Optional[str]]) -> None:
    """Raises a Failure where a result of a PROGRAM would go to its own standard output: by options, the names."""
    for option, name in named.items():
        if name == "-":
            raise Failure(f"stdout is the program's: name a file for {option}", EXIT_USAGE)


def write_each(results: Iterable[Tuple[Optional[OutputFile], Callable[[], Content]]]) -> List[Failure]:
    """Writes each result that has a file, also after one that cannot be written. Returns the failures: the caller shows
    what else it has, which another run may not find again, and then ends with them."""
    failures: List[Failure] = []
    # Standard output is the last: where it cannot be written, the command ends there.
    for file, content in sorted(results, key=lambda one: one[0] is not None and one[0].name == "-"):
        try:
            if file is not None:
                file.write(content())
        except Failure as failure:
            failures.append(failure)
    return failures


def end_with(failures: Sequence[Failure]) -> None:
    """Tells all of them, and raises the last."""
    for failure in failures[:-1]:
        say(failure.message)
    for failure in failures[-1:]:
        raise failure
