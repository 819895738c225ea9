"""ReFS, NTFS, exFAT and FAT volumes: open an image, walk, read, write, check, recover."""

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
from ._platter import CheckReport, Copied, Entry, Finding, Info, Recovered, Stat, Stream, check, mkfs, recover
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
    "Entry",
    "Error",
    "ExistsError",
    "File",
    "Finding",
    "Info",
    "IsADirectory",
    "NotADirectory",
    "NotFoundError",
    "NotPermittedError",
    "Recovered",
    "Stat",
    "Stream",
    "Volume",
    "__version__",
    "check",
    "mkfs",
    "open",
    "recover",
]
