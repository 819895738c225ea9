"""What can go wrong."""


class Error(OSError):
    """A refusal or a failure. `errno` is what a POSIX caller gets, `filename` what it is about, `kind` says more."""

    #: The kind of failure, for example "NoSpace" or "Protected".
    kind = "Io"
    #: The path on a volume, or the source, that the failure is about.
    about = ""


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
    structure = None
    #: The offset of the structure, in bytes from the start of the volume.
    position = None
    #: The expected value.
    expected = None
    #: The value that was found.
    found = None


_KINDS = {
    "NotFound": NotFoundError,
    "Exists": ExistsError,
    "NotADirectory": NotADirectory,
    "IsADirectory": IsADirectory,
    "NotPermitted": NotPermittedError,
    "ReadOnly": NotPermittedError,
    "Damaged": DamageError,
}


def make(kind, errno, text, about, damage):
    """The exception for an error of the library."""
    # Python itself puts the name behind the message, in quotation marks.
    why = text[len(about) + 2 :] if about and text.startswith(f"{about}: ") else text
    error = _KINDS.get(kind, Error)(errno, why, about) if about else _KINDS.get(kind, Error)(errno, why)
    error.kind = kind
    error.about = about
    if damage is not None:
        error.structure, error.position, error.expected, error.found = damage
    return error
