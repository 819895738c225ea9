"""Prints every file and directory of an NTFS image, as libfsntfs (PyPI: libfsntfs-python) reads it.

Lines are "d PATH" or "f SIZE SHA256 PATH", parted by tabs. What is in the records that the system keeps is left out, and
so is what is behind a reparse point.
"""
import sys

from fsntfs import REPARSE, total, walk

sys.stdout.reconfigure(encoding="utf-8")
for path, entry in walk(sys.argv[1]):
    if entry.has_directory_entries_index():
        print("d", path, sep="\t")
    elif not entry.file_attribute_flags & REPARSE:
        print("f", entry.size, total(entry), path, sep="\t")
