"""Prints every file and directory of an NTFS image, as dissect.ntfs (PyPI) reads it.

Lines are "d PATH" or "f SIZE SHA256 PATH", parted by tabs. What is in the records that the system keeps is left out, and
so is what is behind a reparse point.
"""
import hashlib
import sys

from dissect.ntfs import NTFS

FIRST = 24


def show(directory, path):
    for name, entry in directory.listdir().items():
        record = entry.dereference()
        if record.segment < FIRST:
            continue
        here = f"{path}/{name}"
        if record.is_dir():
            print("d", here, sep="\t")
            show(record, here)
        elif not record.is_reparse_point():
            total, size = hashlib.sha256(), 0
            stream = record.open()
            while piece := stream.read(1 << 20):
                total.update(piece)
                size += len(piece)
            print("f", size, total.hexdigest(), here, sep="\t")


sys.stdout.reconfigure(encoding="utf-8")
with open(sys.argv[1], "rb") as image:
    show(NTFS(image).mft.root, "")
