"""ReFS, NTFS, exFAT and FAT volumes: open an image, walk, read, write, check, recover."""

from ._errors import (
    DamageError,
    Error,
    ExistsError,
    IsADirectory,
    NotADirectory,
    NotFoundError,
    NotPermittedError,
)
from ._platter import CheckReport, Entry, Finding, Info, Recovered, Stat, Stream, check, mkfs, recover
from ._volume import File, Volume, open

__all__ = [
    "CheckReport",
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
    "check",
    "mkfs",
    "open",
    "recover",
]
