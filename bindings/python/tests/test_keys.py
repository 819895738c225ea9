"""A volume that BitLocker encrypts, which the tests in C have made."""

import errno
import os
import pathlib
import shutil

import fsspec
import platterfs
import pytest

MADE = pathlib.Path(os.environ["PLATTER_ENCRYPTED"])
KEYS = [
    {"password": "correct horse battery"},
    {"recovery_key": "471207-278498-422125-177177-561902-537405-468006-693451"},
    {"key_file": MADE / "encrypted.bek"},
]


@pytest.fixture
def encrypted(tmp_path):
    return shutil.copy(MADE / "encrypted.img", tmp_path / "encrypted.img")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: next(iter(key)))
def test_every_kind_of_key_opens_it(encrypted, key, tmp_path):
    with platterfs.open(encrypted, "r+", **key) as volume:
        assert volume.read("file") == b"secret"
        volume.write("new", b"also secret")
    assert b"also secret" not in open(encrypted, "rb").read()
    assert platterfs.check(encrypted, **key).clean
    with open(encrypted, "rb") as file, platterfs.open(file, **key) as volume:
        assert volume.read("new") == b"also secret"
    assert platterfs.recover(encrypted, tmp_path / "out", **key).failed == 0
    assert (tmp_path / "out" / "new").read_bytes() == b"also secret"


def test_without_a_right_key_it_stays_closed(encrypted, tmp_path):
    for call in [
        lambda: platterfs.open(encrypted),
        lambda: platterfs.open(encrypted, password="wrong"),
        lambda: platterfs.open(open(encrypted, "rb")),
        lambda: platterfs.check(encrypted),
        lambda: platterfs.recover(encrypted, tmp_path / "out"),
    ]:
        with pytest.raises(platterfs.Error) as raised:
            call()
        assert raised.value.errno == errno.ENOKEY
    with pytest.raises(platterfs.Error, match="48 digits") as raised:
        platterfs.open(encrypted, recovery_key="wrong")
    assert raised.value.errno == errno.EINVAL
    with pytest.raises(FileNotFoundError):
        platterfs.open(encrypted, key_file=tmp_path / "none")


def test_files_through_fsspec(encrypted):
    files = fsspec.filesystem("platter", source=str(encrypted), **KEYS[0])
    assert files.cat("file") == b"secret"
