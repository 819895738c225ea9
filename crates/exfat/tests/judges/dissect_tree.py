"""Prints every file and directory of an exFAT image, as dissect.fat (PyPI) reads it.

Lines are "d PATH" or "f SIZE MODIFIED SHA256 PATH", parted by tabs. Two things are helped with, which dissect.fat 3
does not do: it takes a directory in one run for one cluster, and reads directories of 32 MiB past their end.
"""
import calendar
import hashlib
import io
import sys

from dissect.fat.exfat import ExFAT, RootDirectory
from dissect.util.stream import RunlistStream


def runs(volume, stream, length):
    contiguous = bool(stream.flags.not_fragmented)
    return volume.runlist(stream.location, contiguous, length if contiguous else None)


def parse_file_entries(self, handle, plain=RootDirectory._parse_file_entries):
    entries = bytearray()
    while piece := handle.read(32):
        entries += piece
        if piece[0] == 0:
            break
    whole = io.BytesIO(bytes(entries))
    whole.size = len(entries)
    return plain(self, whole)


def parse_subdir(self, entry):
    stream = entry.stream
    if stream.location == 0:
        return {}
    handle = RunlistStream(
        self.exfat.filesystem, runs(self.exfat, stream, stream.data_length), stream.data_length, self.exfat.sector_size
    )
    return self._parse_file_entries(handle)


RootDirectory._parse_file_entries = parse_file_entries
RootDirectory._parse_subdir = parse_subdir


def modified(metadata):
    time, offset = metadata.modified_time, ExFAT._utc_timezone(metadata.modified_timezone)["offset"]
    date, clock = int(time) >> 16, int(time) & 0xFFFF
    seconds = calendar.timegm(
        (1980 + (date >> 9), date >> 5 & 15, date & 31, clock >> 11, clock >> 5 & 63, (clock & 31) * 2)
    )
    return seconds - offset * 60 + metadata.modified_offset // 100


def show(volume, entries, path):
    for name, (entry, below) in entries.items():
        here = f"{path}/{name}"
        if below is not None:
            print("d", here, sep="\t")
            show(volume, below, here)
            continue
        stream, total = entry.stream, hashlib.sha256()
        length, valid = stream.data_length, stream.valid_data_length
        if stream.location and length:
            handle = RunlistStream(volume.filesystem, runs(volume, stream, length), length, volume.sector_size)
            total.update(handle.read(valid))
        total.update(bytes(length - valid))
        print("f", length, modified(entry.metadata), total.hexdigest(), here, sep="\t")


sys.stdout.reconfigure(encoding="utf-8")
with open(sys.argv[1], "rb") as image:
    volume = ExFAT(image)
    show(volume, volume.files["/"][1], "")
