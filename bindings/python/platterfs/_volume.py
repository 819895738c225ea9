"""Volumes and files with the manners of Python."""

from __future__ import annotations

import io
import os
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, Optional, Union, overload

from . import _platter

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

Path = Union[str, "os.PathLike[str]"]
Source = Union[Path, BinaryIO]
ReadMode = Literal["rb", "br"]
WriteMode = Literal["wb", "bw", "xb", "bx", "ab", "ba"]
UpdateMode = Literal["r+b", "rb+", "w+b", "wb+", "x+b", "xb+", "a+b", "ab+"]
TextMode = Literal["r", "rt", "w", "wt", "x", "xt", "a", "at", "r+", "w+", "x+", "a+"]


class File(io.RawIOBase):
    """A file or a named stream of a volume, without a buffer."""

    def __init__(
        self, handle: _platter.Handle, name: str, readable: bool = True, writable: bool = False, append: bool = False
    ) -> None:
        super().__init__()
        self._handle: Optional[_platter.Handle] = handle
        self._position = 0
        self._readable = readable
        self._writable = writable
        self._append = append
        self.name = name

    def readable(self) -> bool:
        return self._readable

    def writable(self) -> bool:
        return self._writable

    def seekable(self) -> bool:
        return True

    def _open(self) -> _platter.Handle:
        if self.closed or self._handle is None:
            raise ValueError("I/O operation on closed file")
        return self._handle

    def readinto(self, buffer: Buffer) -> int:
        handle = self._open()
        if not self._readable:
            raise io.UnsupportedOperation("not readable")
        view = memoryview(buffer).cast("B")
        data = handle.read_at(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: Buffer) -> int:
        handle = self._open()
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        content = bytes(data)
        if self._append:
            self._position = handle.size()
        handle.write_at(self._position, content)
        self._position += len(content)
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        if start is None:
            if whence != os.SEEK_END:
                raise ValueError(f"invalid whence: {whence}")
            start = self._open().size()
        if start + offset < 0:
            raise ValueError("a position before the start of the file")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        size = self._position if size is None else size
        self._open().set_len(size)
        return size

    def sync(self) -> None:
        """Returns when the file survives a power cut as it is now."""
        self._open().sync()

    def close(self) -> None:
        super().close()
        self._handle = None


class Volume(_platter.Volume):
    """An open volume. Paths have `/` between their names; symbolic links are not followed."""

    @overload
    def open(
        self, path: Path, mode: ReadMode = "rb", buffering: Literal[-1, 1] = -1, *, stream: Optional[str] = None
    ) -> io.BufferedReader: ...

    @overload
    def open(
        self, path: Path, mode: WriteMode, buffering: Literal[-1, 1] = -1, *, stream: Optional[str] = None
    ) -> io.BufferedWriter: ...

    @overload
    def open(
        self, path: Path, mode: UpdateMode, buffering: Literal[-1, 1] = -1, *, stream: Optional[str] = None
    ) -> io.BufferedRandom: ...

    @overload
    def open(
        self,
        path: Path,
        mode: Union[ReadMode, WriteMode, UpdateMode],
        buffering: Literal[0],
        *,
        stream: Optional[str] = None,
    ) -> File: ...

    @overload
    def open(
        self,
        path: Path,
        mode: TextMode,
        buffering: int = -1,
        *,
        stream: Optional[str] = None,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> io.TextIOWrapper: ...

    @overload
    def open(
        self,
        path: Path,
        mode: str,
        buffering: int = -1,
        *,
        stream: Optional[str] = None,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> Union[File, IO[Any]]: ...

    def open(
        self,
        path: Path,
        mode: str = "rb",
        buffering: int = -1,
        *,
        stream: Optional[str] = None,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> Union[File, IO[Any]]:
        """Opens a file, or a named stream of it, as the function `open` does."""
        path = os.fspath(path)
        text = "b" not in mode
        what = mode.replace("b", "").replace("t", "")
        if what not in ("r", "r+", "w", "w+", "x", "x+", "a", "a+"):
            raise ValueError(f"invalid mode: {mode!r}")
        handle = self._handle(path, what[0], stream)
        name = path if stream is None else f"{path}:{stream}"
        plus = "+" in what
        reads, writes = what[0] == "r" or plus, what[0] != "r" or plus
        raw = File(handle, name, reads, writes, what[0] == "a")
        if what[0] == "a":
            raw.seek(0, os.SEEK_END)
        if buffering == 0:
            if text:
                raise ValueError("text cannot be unbuffered")
            return raw
        size = buffering if buffering > 1 else 1 << 17
        buffered: Union[io.BufferedRandom, io.BufferedWriter, io.BufferedReader]
        if reads and writes:
            buffered = io.BufferedRandom(raw, size)
        elif writes:
            buffered = io.BufferedWriter(raw, size)
        else:
            buffered = io.BufferedReader(raw, size)
        if not text:
            return buffered
        return io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def open(
    source: Source,
    mode: Literal["r", "r+"] = "r",
    *,
    local_offset_minutes: int = 0,
    password: Optional[str] = None,
    recovery_key: Optional[str] = None,
    key_file: Optional[Path] = None,
) -> Volume:
    """Opens a volume: for reading ("r"), or for reading and writing ("r+").

    A source is a path, `IMAGE@N` for a partition, `mirror:IMAGE,IMAGE`, or a file object that reads and seeks.

    One that BitLocker encrypts needs a password, a recovery key of 48 digits or the path of a key file (.BEK).

    After os.fork a volume that was opened for writing works in the process that opened it; others raise an error.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f'a volume is opened with "r" or "r+", not {mode!r}')
    return Volume(
        source,
        mode == "r+",
        local_offset_minutes,
        password=password,
        recovery_key=recovery_key,
        key_file=key_file,
    )
