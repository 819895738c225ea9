"""A volume as a file system of fsspec: `platter://PATH` with `source=IMAGE`."""

from datetime import datetime, timedelta, timezone

from fsspec.spec import AbstractFileSystem

from . import _volume

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class PlatterFileSystem(AbstractFileSystem):
    """Reads, and with `mode="r+"` writes, a volume.

    Parameters
    ----------
    source:
        What `platterfs.open` takes: a path, `IMAGE@N`, `mirror:IMAGE,IMAGE`, or a file object.
    mode:
        "r" or "r+".
    """

    protocol = "platter"
    root_marker = ""

    def __init__(self, source=None, mode="r", **options):
        super().__init__(source=source, mode=mode, **options)
        if source is None:
            raise ValueError("which volume? source=IMAGE is missing")
        self.volume = _volume.open(source, mode)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path).lstrip("/")

    def _info(self, path, stat):
        return {
            "name": path,
            "size": stat.size,
            "type": {"directory": "directory", "file": "file"}.get(stat.kind, "other"),
            "created": _time(stat.created_ns),
            "mtime": _time(stat.modified_ns),
            "islink": stat.kind == "symlink",
        }

    def info(self, path, **options):
        path = self._strip_protocol(path)
        return self._info(path, self.volume.stat(path))

    def ls(self, path, detail=True, **options):
        path = self._strip_protocol(path)
        own = self.volume.stat(path)
        if own.kind != "directory":
            found = [self._info(path, own)]
        else:
            found = [self._info(f"{path}/{entry.name}" if path else entry.name, entry) for entry in self.volume.scandir(path)]
        return found if detail else [one["name"] for one in found]

    def created(self, path):
        return self.info(path)["created"]

    def modified(self, path):
        return self.info(path)["mtime"]

    def mkdir(self, path, create_parents=True, **options):
        (self.volume.makedirs if create_parents else self.volume.mkdir)(self._strip_protocol(path))

    def makedirs(self, path, exist_ok=False):
        path = self._strip_protocol(path)
        if not exist_ok and self.volume.exists(path):
            raise FileExistsError(path)
        self.volume.makedirs(path)

    def rmdir(self, path):
        self.volume.rmdir(self._strip_protocol(path))

    def _rm(self, path):
        path = self._strip_protocol(path)
        (self.volume.rmdir if self.isdir(path) else self.volume.remove)(path)

    def mv(self, path1, path2, **options):
        self.volume.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1, path2, **options):
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)

    def _open(self, path, mode="rb", block_size=None, **options):
        return self.volume.open(self._strip_protocol(path), mode)


def _time(nanoseconds):
    return None if nanoseconds is None else _EPOCH + timedelta(microseconds=nanoseconds // 1000)
