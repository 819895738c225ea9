"""What the scripts share that read an NTFS image with libfsntfs (PyPI: libfsntfs-python)."""
import hashlib

import pyfsntfs

# Records before this are the system's.
FIRST = 24
REPARSE = 0x400


def total(stream):
    """SHA-256 of a file's or a named stream's content."""
    found, left = hashlib.sha256(), stream.size
    while left:
        piece = stream.read_buffer(min(left, 1 << 20))
        if not piece:
            raise SystemExit(f"{stream.name} ends {left} bytes early")
        found.update(piece)
        left -= len(piece)
    return found.hexdigest()


def walk(image):
    """Every file and directory with its path. What is in the records that the system keeps is left out."""
    volume = pyfsntfs.volume()
    volume.open(image)
    yield from below(volume.get_root_directory(), "")


def below(directory, path):
    for number in range(directory.number_of_sub_file_entries):
        entry = directory.get_sub_file_entry(number)
        if entry.file_reference & 0xFFFFFFFFFFFF < FIRST:
            continue
        here = f"{path}/{entry.name}"
        yield here, entry
        if entry.has_directory_entries_index():
            yield from below(entry, here)
