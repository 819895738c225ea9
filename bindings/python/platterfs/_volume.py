"""Volumes and files with the manners of Python."""

import io
import os

from . import _platter


class File(io.RawIOBase):
    """A file or a named stream of a volume, without a buffer."""

    def __init__(self, handle, name, readable=True, writable=False, append=False):
        super().__init__()
        self._handle = handle
        self._position = 0
        self._readable = readable
        self._writable = writable
        self._append = append
        self.name = name

    def readable(self):
        return self._readable

    def writable(self):
        return self._writable

    def seekable(self):
        return True

    def _open(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._handle

    def readinto(self, buffer):
        handle = self._open()
        if not self._readable:
            raise io.UnsupportedOperation("not readable")
        view = memoryview(buffer).cast("B")
        data = handle.read_at(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data):
        handle = self._open()
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        data = bytes(data)
        if self._append:
            self._position = handle.size()
        handle.write_at(self._position, data)
        self._position += len(data)
        return len(data)

    def seek(self, offset, whence=os.SEEK_SET):
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        if start is None:
            if whence != os.SEEK_END:
                raise ValueError(f"invalid whence: {whence}")
            start = self._open().size()
        if start + offset < 0:
            raise ValueError("a position before the start of the file")
        self._position = start + offset
        return self._position

    def tell(self):
        return self._position

    def truncate(self, size=None):
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        size = self._position if size is None else size
        self._open().set_len(size)
        return size

    def sync(self):
        """Returns when the file survives a power cut as it is now."""
        self._open().sync()

    def close(self):
        super().close()
        self._handle = None


class Volume(_platter.Volume):
    """An open volume. Paths have `/` between their names; symbolic links are not followed."""

    def open(self, path, mode="rb", buffering=-1, *, stream=None, encoding=None, errors=None, newline=None):
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
        if reads and writes:
            buffered = io.BufferedRandom(raw, size)
        elif writes:
            buffered = io.BufferedWriter(raw, size)
        else:
            buffered = io.BufferedReader(raw, size)
        if not text:
            return buffered
        return io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def open(source, mode="r", *, local_offset_minutes=0):
    """Opens a volume: for reading ("r"), or for reading and writing ("r+").

    A source is a path, `IMAGE@N` for a partition, `mirror:IMAGE,IMAGE`, or a file object that reads and seeks.

    After os.fork a volume that was opened for writing works in the process that opened it; others raise an error.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f'a volume is opened with "r" or "r+", not {mode!r}')
    return Volume(source, mode == "r+", local_offset_minutes)
