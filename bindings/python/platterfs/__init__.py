"""ReFS, NTFS, exFAT and FAT volumes: open an image, walk, read, write, check, scrub, recover."""

from importlib import metadata as _metadata

from ._errors import (
    DamageError,
    Error,
    ExistsError,
    IsADirectory,
    NotADirectory,
    NotFoundError,
    NotPermittedError,
)
from ._platter import (
    CheckReport,
    Copied,
    Damaged,
    Entry,
    Finding,
    Info,
    MirrorCopy,
    MirrorStatus,
    Recovered,
    ScrubReport,
    Stat,
    Stream,
    Undone,
    check,
    mirror_add,
    mirror_drop,
    mirror_rebuild,
    mirror_status,
    mkfs,
    recover,
    scrub,
    undo,
)
from ._volume import File, Volume, open

#: The version of the package, such as "0.1.0".
try:
    __version__ = _metadata.version("platterfs")
except _metadata.PackageNotFoundError:
    # The package is used from its sources, where nothing is installed.
    __version__ = "0"

__all__ = [
    "CheckReport",
    "Copied",
    "DamageError",
    "Damaged",
    "Entry",
    "Error",
    "ExistsError",
    "File",
    "Finding",
    "Info",
    "IsADirectory",
    "MirrorCopy",
    "MirrorStatus",
    "NotADirectory",
    "NotFoundError",
    "NotPermittedError",
    "Recovered",
    "ScrubReport",
    "Stat",
    "Stream",
    "Undone",
    "Volume",
    "__version__",
    "check",
    "mirror_add",
    "mirror_drop",
    "mirror_rebuild",
    "mirror_status",
    "mkfs",
    "open",
    "recover",
    "scrub",
    "undo",
]
