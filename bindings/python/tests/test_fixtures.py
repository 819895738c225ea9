"""Volumes that Windows and others made: every file is what the command reads of it."""

import hashlib
import os
import pathlib
import subprocess

import platterfs
import pytest

ROOT = pathlib.Path(__file__).parents[3]
FIXTURES = sorted((ROOT / "crates" / "ntfs" / "tests" / "data").glob("*.raw.*z"))


@pytest.mark.parametrize("packed", FIXTURES, ids=lambda path: path.name)
def test_every_file_is_what_the_command_reads(packed, tmp_path):
    command = os.environ.get("PLATTER") or str(ROOT / "target" / "debug" / "platter")
    image = tmp_path / "image"
    with open(image, "wb") as file:
        unpack = "gzip" if packed.suffix == ".gz" else "xz"
        subprocess.run([unpack, "-dc", packed], stdout=file, check=True)
    if packed.name.startswith("former-"):
        # An earlier version of Platter made this image, and wrote structures that the check now reports as damage.
        platterfs.check(image, repair=True)
    files = 0
    with platterfs.open(image) as volume:
        for entry in volume.walk():
            if entry.kind != "file" or files == 40:
                continue
            files += 1
            with volume.open(entry.path) as file:
                mine = hashlib.sha256(file.read()).hexdigest()
            cat = subprocess.run([command, "cat", f"{image}:/{entry.path}"], capture_output=True, check=True)
            assert mine == hashlib.sha256(cat.stdout).hexdigest(), entry.path
    assert files > 0


def test_there_are_fixtures():
    assert len(FIXTURES) >= 5
