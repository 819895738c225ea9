"""What can go wrong."""

from __future__ import annotations

from typing import Optional


class Error(OSError):
    """A refusal or a failure. `errno` is what a POSIX caller gets, `filename` what it is about, `kind` says more."""

    #: The kind of failure, for example "NoSpace" or "Protected".
    kind: str = "Io"
    #: The path on a volume, or the source, that the failure is about.
    about: str = ""


class NotFoundError(Error, FileNotFoundError):
    """No file, directory or source of this name."""


class ExistsError(Error, FileExistsError):
    """The name is taken."""


class NotADirectory(Error, NotADirectoryError):
    """A directory is needed."""


class IsADirectory(Error, IsADirectoryError):
    """Something other than a directory is needed."""


class NotPermittedError(Error, PermissionError):
    """The volume is open for reading only, or an attribute forbids it."""


class DamageError(Error):
    """A structure on the device is damaged. Nothing derived from it was used."""

    #: The structure's name in the format's own terms, `None` if the damage has no one place.
    structure: Optional[str] = None
    #: The offset of the structure, in bytes from the start of the volume.
    position: Optional[int] = None
    #: The expected value.
    expected: Optional[str] = None
    #: The value that was found.
    found: Optional[str] = None


_KINDS: dict[str, type[Error]] = {
    "NotFound": NotFoundError,
    "Exists": ExistsError,
    "NotADirectory": NotADirectory,
    "IsADirectory": IsADirectory,
    "NotPermitted": NotPermittedError,
    "ReadOnly": NotPermittedError,
    "Damaged": DamageError,
}


def make(
    kind: str,
    errno: int,
    text: str,
    about: str,
    damage: Optional[tuple[Optional[str], Optional[int], Optional[str], Optional[str]]],
) -> Error:
    """The exception for an error of the library."""
    # Python itself puts the name behind the message, in quotation marks.
    why = text[len(about) + 2 :] if about and text.startswith(f"{about}: ") else text
    error = _KINDS.get(kind, Error)(errno, why, about) if about else _KINDS.get(kind, Error)(errno, why)
    error.kind = kind
    error.about = about
    if damage is not None and isinstance(error, DamageError):
        error.structure, error.position, error.expected, error.found = damage
    return error
