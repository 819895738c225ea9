import os
import random

import platterfs
import pytest

FORMATS = ["fat32", "exfat", "ntfs", "refs", "refs+integrity"]


@pytest.fixture(params=FORMATS)
def image(request, tmp_path):
    path = tmp_path / "disk.img"
    platterfs.mkfs(path, request.param, size=384 << 20, label="PYTHON")
    return path


@pytest.fixture
def ntfs(tmp_path):
    path = tmp_path / "ntfs.img"
    platterfs.mkfs(path, "ntfs", size=64 << 20)
    return path


@pytest.fixture
def content():
    return random.Random(5).randbytes(300_000)
