"""Prints size, SHA-256 and path of every file of an NTFS image that Windows Overlay Filter packed, as libfsntfs (PyPI:
libfsntfs-python) reads it, parted by tabs.
"""
import sys

from fsntfs import REPARSE, total, walk

sys.stdout.reconfigure(encoding="utf-8")
for path, entry in walk(sys.argv[1]):
    if entry.file_attribute_flags & REPARSE:
        print(entry.size, total(entry), path, sep="\t")
