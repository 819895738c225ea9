"""Prints what an NTFS image says of every file and directory besides their content, as libfsntfs (PyPI: libfsntfs-python)
reads it.

Fields, with tabs between them: path; attribute flags that a user can set; times of creation, modification, access and change
in units of 100 ns since 1601; SHA-256 of the security descriptor; named streams as NAME=SIZE=SHA256, with ";" between them.
What is in the records that the system keeps is left out.
"""
import hashlib
import sys

from fsntfs import total, walk

SETTABLE = 0x27
# In place of a sum: libfsntfs does not find the descriptor in $Secure.
UNREAD = "unread"


def descriptor_of(entry):
    try:
        return hashlib.sha256(entry.security_descriptor_data or b"").hexdigest()
    except OSError:
        return UNREAD


sys.stdout.reconfigure(encoding="utf-8")
for path, entry in walk(sys.argv[1]):
    times = (
        entry.get_creation_time_as_integer(),
        entry.get_modification_time_as_integer(),
        entry.get_access_time_as_integer(),
        entry.get_entry_modification_time_as_integer(),
    )
    streams = sorted(f"{one.name}={one.size}={total(one)}" for one in entry.alternate_data_streams)
    print(path, entry.file_attribute_flags & SETTABLE, *times, descriptor_of(entry), ";".join(streams), sep="\t")
