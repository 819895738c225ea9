"""Prints what an NTFS image says of every file and directory besides their content, as libfsntfs (PyPI: libfsntfs-python)
reads it.

Fields, with tabs between them: path; attribute flags that a user can set; times of creation, modification, access and change
in units of 100 ns since 1601; SHA-256 of the security descriptor; named streams as NAME=SIZE=SHA256, with ";" between them.
What is in the records that the system keeps is left out.
"""
import hashlib
import sys

import pyfsntfs

FIRST = 24
SETTABLE = 0x27
REPARSE = 0x400
# In place of a sum: libfsntfs does not find the descriptor in $Secure.
UNREAD = "unread"


def total(stream):
    found, left = hashlib.sha256(), stream.size
    while left:
        piece = stream.read_buffer(min(left, 1 << 20))
        if not piece:
            raise SystemExit(f"{stream.name} ends {left} bytes early")
        found.update(piece)
        left -= len(piece)
    return found.hexdigest()


def descriptor_of(entry):
    try:
        return hashlib.sha256(entry.security_descriptor_data or b"").hexdigest()
    except OSError:
        return UNREAD


def show(directory, path):
    for number in range(directory.number_of_sub_file_entries):
        entry = directory.get_sub_file_entry(number)
        if entry.file_reference & 0xFFFFFFFFFFFF < FIRST:
            continue
        here = f"{path}/{entry.name}"
        times = (
            entry.get_creation_time_as_integer(),
            entry.get_modification_time_as_integer(),
            entry.get_access_time_as_integer(),
            entry.get_entry_modification_time_as_integer(),
        )
        descriptor = descriptor_of(entry)
        streams = sorted(f"{one.name}={one.size}={total(one)}" for one in entry.alternate_data_streams)
        print(here, entry.file_attribute_flags & SETTABLE, *times, descriptor, ";".join(streams), sep="\t")
        if entry.has_directory_entries_index() and not entry.file_attribute_flags & REPARSE:
            show(entry, here)


sys.stdout.reconfigure(encoding="utf-8")
volume = pyfsntfs.volume()
volume.open(sys.argv[1])
show(volume.get_root_directory(), "")
