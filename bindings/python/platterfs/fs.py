"""A volume as a file system of fsspec: `platter://PATH` with `source=IMAGE`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Optional

# fsspec has no types.
from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from . import _platter, _volume

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class PlatterFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Reads, and with `mode="r+"` writes, a volume.

    Parameters
    ----------
    source:
        What `platterfs.open` takes: a path, `IMAGE@N`, `mirror:IMAGE,IMAGE`, or a file object.
    mode:
        "r" or "r+".
    password, recovery_key, key_file:
        Keys to a volume that BitLocker encrypts. They are in what `to_json` and a pickle have of the file system.
    """

    protocol = "platter"
    root_marker = ""

    def __init__(
        self,
        source: Optional[_volume.Source] = None,
        mode: Literal["r", "r+"] = "r",
        *,
        password: Optional[str] = None,
        recovery_key: Optional[str] = None,
        key_file: Optional[_volume.Path] = None,
        **options: Any,
    ) -> None:
        super().__init__(
            source=source, mode=mode, password=password, recovery_key=recovery_key, key_file=key_file, **options
        )
        if source is None:
            raise ValueError("which volume? source=IMAGE is missing")
        self.volume = _volume.open(
            source, mode, password=password, recovery_key=recovery_key, key_file=key_file
        )

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path)).lstrip("/")

    def _info(self, path: str, stat: _platter.Stat) -> dict[str, Any]:
        return {
            "name": path,
            "size": stat.size,
            "type": {"directory": "directory", "file": "file"}.get(stat.kind, "other"),
            "created": _time(stat.created_ns),
            "mtime": _time(stat.modified_ns),
            "islink": stat.kind == "symlink",
        }

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._info(path, self.volume.stat(path))

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        path = self._strip_protocol(path)
        own = self.volume.stat(path)
        if own.kind != "directory":
            found = [self._info(path, own)]
        else:
            found = [self._info(f"{path}/{entry.name}" if path else entry.name, entry) for entry in self.volume.scandir(path)]
        return found if detail else [one["name"] for one in found]

    def created(self, path: str) -> Optional[datetime]:
        created: Optional[datetime] = self.info(path)["created"]
        return created

    def modified(self, path: str) -> Optional[datetime]:
        modified: Optional[datetime] = self.info(path)["mtime"]
        return modified

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        (self.volume.makedirs if create_parents else self.volume.mkdir)(self._strip_protocol(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and self.volume.exists(path):
            raise FileExistsError(path)
        self.volume.makedirs(path)

    def rmdir(self, path: str) -> None:
        self.volume.rmdir(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        path = self._strip_protocol(path)
        (self.volume.rmdir if self.isdir(path) else self.volume.remove)(path)

    def mv(
        self, path1: str, path2: str, recursive: bool = False, maxdepth: Optional[int] = None, **options: Any
    ) -> None:
        self.volume.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        source: Any
        target: Any
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[dict[str, Any]] = None,
        **options: Any,
    ) -> Any:
        return self.volume.open(self._strip_protocol(path), mode)


def _time(nanoseconds: Optional[int]) -> Optional[datetime]:
    return None if nanoseconds is None else _EPOCH + timedelta(microseconds=nanoseconds // 1000)
