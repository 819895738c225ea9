"""Prints every file and directory of an NTFS image, as libfsntfs (PyPI: libfsntfs-python) reads it.

Lines are "d PATH" or "f SIZE SHA256 PATH", parted by tabs. What is in the records that the system keeps is left out, and
so is what is behind a reparse point.
"""
import hashlib
import sys

import pyfsntfs

FIRST = 24
DIRECTORY, REPARSE = 0x10, 0x400


def total(stream):
    found, left = hashlib.sha256(), stream.size
    while left:
        piece = stream.read_buffer(min(left, 1 << 20))
        if not piece:
            raise SystemExit(f"ends {left} bytes early")
        found.update(piece)
        left -= len(piece)
    return found.hexdigest()


def show(directory, path):
    for number in range(directory.number_of_sub_file_entries):
        entry = directory.get_sub_file_entry(number)
        if entry.file_reference & 0xFFFFFFFFFFFF < FIRST:
            continue
        here = f"{path}/{entry.name}"
        if entry.has_directory_entries_index():
            print("d", here, sep="\t")
            show(entry, here)
        elif not entry.file_attribute_flags & REPARSE:
            print("f", entry.size, total(entry), here, sep="\t")


sys.stdout.reconfigure(encoding="utf-8")
volume = pyfsntfs.volume()
volume.open(sys.argv[1])
show(volume.get_root_directory(), "")
