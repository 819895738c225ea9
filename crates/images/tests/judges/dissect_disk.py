"""Writes the disk in an image, as dissect.hypervisor reads it, to a file: KIND IMAGE FILE."""

import pathlib
import sys

from dissect.hypervisor.disk import qcow2, vhd, vhdx, vmdk

kind, image, out = sys.argv[1], pathlib.Path(sys.argv[2]).absolute(), sys.argv[3]
if kind == "qcow2":
    disk = qcow2.QCow2(image).open()
elif kind == "vhdx":
    disk = vhdx.VHDX(image)
elif kind == "vmdk":
    disk = vmdk.VMDK(image)
else:
    disk = vhd.VHD(open(image, "rb"))
disk.seek(0)
left = disk.size
with open(out, "wb") as file:
    while left > 0:
        piece = disk.read(min(left, 1 << 20))
        if not piece:
            sys.exit(f"{left} bytes are missing")
        file.write(piece)
        left -= len(piece)
