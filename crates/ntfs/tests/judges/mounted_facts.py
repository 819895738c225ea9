"""Prints what a volume mounted by ntfs-3g says of every file and directory besides their content; fields as in
fsntfs_facts.py, and the number of links, 1 for a directory."""
import ctypes
import hashlib
import os
import stat
import struct
import sys

SETTABLE = 0x27


libc = ctypes.CDLL(None, use_errno=True)
room = ctypes.create_string_buffer(1 << 16)


def attribute(path, name):
    # Not os.getxattr(): it begins with little room, and ntfs-3g answers that with EIO where a descriptor needs more.
    length = libc.lgetxattr(os.fsencode(path), os.fsencode(name), room, len(room))
    if length < 0:
        raise OSError(ctypes.get_errno(), name, path)
    return room.raw[:length]


def show(root, directory):
    for name in os.listdir(root + directory):
        here = f"{directory}/{name}"
        path = root + here
        (flags,) = struct.unpack("<I", attribute(path, "system.ntfs_attrib"))
        created, modified, accessed, changed = struct.unpack("<4Q", attribute(path, "system.ntfs_times"))
        descriptor = hashlib.sha256(attribute(path, "system.ntfs_acl")).hexdigest()
        found = os.lstat(path)
        is_directory = stat.S_ISDIR(found.st_mode)
        streams = []
        # Links and what is shown as a pipe or a socket have none that could be asked for.
        if is_directory or stat.S_ISREG(found.st_mode):
            for stream in os.listxattr(path):
                if stream.startswith("user."):
                    value = attribute(path, stream)
                    streams.append(f"{stream[5:]}={len(value)}={hashlib.sha256(value).hexdigest()}")
        links = 1 if is_directory else found.st_nlink
        times = created, modified, accessed, changed
        print(here, flags & SETTABLE, *times, descriptor, ";".join(sorted(streams)), links, sep="\t")
        if is_directory:
            show(root, here)


sys.stdout.reconfigure(encoding="utf-8")
show(sys.argv[1], "")
