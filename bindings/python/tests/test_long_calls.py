"""Progress, cancellation and file objects, in everything that may take long."""

import errno
import io
import os
import random
import signal
import time

import platterfs
import pytest

MIB = 1 << 20
#: What a call may take to end: on a machine that does nothing else it is below 0.2 s.
SOON = 2


class Slow(io.BytesIO):
    """A disk of 10 MiB a second, on which no call is over before it can be ended."""

    name = "slow"

    def read(self, size=-1):
        time.sleep(max(size, 0) / (10 * MIB))
        return super().read(size)

    def write(self, data):
        time.sleep(len(data) / (10 * MIB))
        return super().write(data)


@pytest.fixture(scope="module")
def content():
    """The bytes of a volume with checksums and 96 MiB of data."""
    disk = io.BytesIO(bytes(400 * MIB))
    platterfs.mkfs(disk, "refs", integrity=True)
    with platterfs.open(disk, "r+") as volume:
        for number in range(6):
            volume.write(f"{number}", random.Random(number).randbytes(16 * MIB))
    return disk.getvalue()


def copy_in(disk, place, progress):
    (place / "new").write_bytes(bytes(range(256)) * (64 * MIB // 256))
    with platterfs.open(disk, "r+") as volume:
        volume.copy_in(place / "new", "new", progress=progress)


def copy_out(disk, place, progress):
    with platterfs.open(disk) as volume:
        volume.copy_out("", place / "out", progress=progress)


CALLS = {
    "check": lambda disk, place, progress: platterfs.check(disk, data=True, progress=progress),
    "scrub": lambda disk, place, progress: platterfs.scrub(disk, progress=progress),
    "recover": lambda disk, place, progress: platterfs.recover(disk, place / "to", progress=progress),
    "mkfs": lambda disk, place, progress: platterfs.mkfs(disk, "ntfs", full=True, force=True, progress=progress),
    "copy_in": copy_in,
    "copy_out": copy_out,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", ["callback", "signal"])
def test_an_exception_ends_the_call(content, tmp_path, call, how):
    """One that the function for the progress raises, or the handler of a signal, as that of Ctrl-C does."""
    raised_at = []

    def told(done, total, step):
        raised_at.append(time.monotonic())
        raise KeyError(step)

    def handler(number, frame):
        raised_at.append(time.monotonic())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        if how == "signal":
            signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyError if how == "callback" else KeyboardInterrupt):
            CALLS[call](Slow(content), tmp_path, told if how == "callback" else None)
        ended = time.monotonic()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(raised_at) == 1 and ended - raised_at[0] < SOON


class Interrupted(io.BytesIO):
    """A disk in whose nth transfer Ctrl-C is handled."""

    left = 0

    def read(self, size=-1):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().read(size)


def test_ctrl_c_in_a_file_object_is_no_error_of_the_device(content):
    disk = Interrupted(content)
    for disk.left in range(1, 30):
        with pytest.raises(KeyboardInterrupt):
            platterfs.open(disk)
    with platterfs.open(disk) as volume:
        disk.left = 1
        with pytest.raises(KeyboardInterrupt):
            volume.read("3")
        assert len(volume.read("3")) == 16 * MIB


@pytest.mark.parametrize("call", CALLS)
def test_progress_comes_to_its_end(content, tmp_path, call):
    told = []
    CALLS[call](io.BytesIO(content), tmp_path, lambda *one: told.append(one))
    assert told and all(type(step) is str and step and 0 <= done for done, _, step in told)
    done, total, _ = told[-1]
    assert done == total or call == "recover"


def test_a_file_object_is_checked_repaired_and_given_back(tmp_path):
    disk = io.BytesIO(bytes(8 * MIB))
    platterfs.mkfs(disk, "fat", label="OBJECT")
    with platterfs.open(disk, "r+") as volume:
        volume.write("a", b"text")
    assert platterfs.check(disk).clean
    data = bytearray(disk.getvalue())
    data[data[14] * 512 + 6] = 0xFF  # a cluster that belongs to no file
    disk = io.BytesIO(data)
    assert not platterfs.check(disk).clean and disk.getvalue() == data
    with pytest.raises(platterfs.Error, match="saved") as raised:
        platterfs.check(disk, repair=True)
    assert raised.value.errno == errno.EINVAL and raised.value.filename == "a file object"
    report = platterfs.check(disk, repair=True, undo=tmp_path / "kept")
    assert report.repaired == report.found > 0 and report.undo == tmp_path / "kept"
    assert platterfs.check(disk).clean
    undone = platterfs.undo(report.undo, disk)
    assert undone.blocks > 0 and undone.began_ns > 10**18 and disk.getvalue() == data
    assert platterfs.check(disk, repair=True, undo=False).undo is None
    platterfs.recover(disk, tmp_path / "to")
    assert (tmp_path / "to" / "a").read_bytes() == b"text"
    with pytest.raises(platterfs.Error) as raised:
        platterfs.mkfs(disk, "exfat")
    assert raised.value.kind == "Protected" and raised.value.errno == errno.EBUSY
    assert raised.value.filename == "a file object"


def test_a_repair_is_taken_back(tmp_path):
    image = tmp_path / "disk.img"
    platterfs.mkfs(image, "fat", size=8 * MIB)
    with open(image, "r+b") as file:
        file.seek(14)
        file.seek(file.read(1)[0] * 512 + 6)
        file.write(b"\xff")
    damaged = image.read_bytes()
    report = platterfs.check(image, repair=True)
    assert str(report.undo) == f"{image}.undo" and image.read_bytes() != damaged
    told = []
    assert platterfs.undo(report.undo, image, progress=lambda *one: told.append(one)).blocks > 0
    assert image.read_bytes() == damaged and told[-1][0] == told[-1][1]
    assert platterfs.undo(report.undo, image).blocks == 0
    platterfs.check(image, repair=True, undo=tmp_path / "second")
    with open(image, "r+b") as file:
        file.write(b"other")
    with pytest.raises(platterfs.Error, match="written to after") as raised:
        platterfs.undo(tmp_path / "second", image)
    assert (raised.value.kind, raised.value.filename) == ("Protected", str(image))
    with pytest.raises(FileNotFoundError) as raised:
        platterfs.undo(tmp_path / "none", image)
    assert raised.value.filename == str(tmp_path / "none")


def test_a_scrub_finds_goes_on_and_removes(content, tmp_path):
    data = bytearray(content)
    at = data.find(random.Random(3).randbytes(16 * MIB)[:4096])
    data[at] ^= 1
    disk = io.BytesIO(data)
    report = platterfs.scrub(disk)
    (damaged,) = report.damaged
    assert isinstance(damaged, platterfs.Finding) and damaged.path == "/3" and damaged.severity == "data-loss"
    assert (damaged.start, damaged.position, report.lost, report.clean) == (0, at, damaged.end, False)
    parts, start = [], None
    while not parts or start:
        part = platterfs.scrub(disk, limit=32 * MIB, start=start)
        start = part.next
        parts.append(part)
    assert len(parts) > 2 and sum(part.found for part in parts) == 1
    assert platterfs.scrub(disk, salvage=True).removed == ["/3"]
    assert platterfs.scrub(disk).clean
    fat = io.BytesIO(bytes(8 * MIB))
    platterfs.mkfs(fat, "fat")
    with pytest.raises(platterfs.Error) as raised:
        platterfs.scrub(fat)
    assert raised.value.errno == errno.EOPNOTSUPP and raised.value.filename == "a file object"


def test_the_copies_of_a_mirror(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    platterfs.mkfs("mirror:a.img,b.img", "ntfs", size=64 * MIB)
    with platterfs.open("mirror:a.img,b.img", "r+") as volume:
        volume.write("a", random.Random(1).randbytes(32 * MIB))
    status = platterfs.mirror_status("mirror:a.img,b.img")
    assert status.whole and not status.unclosed
    assert [(copy.name, copy.standing) for copy in status.copies] == [("a.img", "current"), ("b.img", "current")]
    os.remove("b.img")
    (_, lost) = platterfs.mirror_status("mirror:a.img,b.img").copies
    assert lost.standing == "left-out" and "missing" in lost.message

    def stop(done, total, step):
        raise InterruptedError(step)

    with pytest.raises(InterruptedError):
        platterfs.mirror_rebuild("mirror:a.img,b.img", progress=stop)
    told = []
    platterfs.mirror_rebuild("mirror:a.img,b.img", progress=lambda *one: told.append(one))
    assert platterfs.mirror_status("mirror:a.img,b.img").whole
    assert platterfs.mirror_add("mirror:a.img,b.img", "c.img") == 1
    with open("c.img", "rb") as c, open("a.img", "rb") as a:
        assert c.read() == a.read()
    platterfs.mirror_drop("mirror:a.img,b.img,c.img", "c.img")
    with platterfs.open("c.img", "r+") as volume:
        volume.write("alone", b"")
    with platterfs.open("b.img", "r+") as volume:
        volume.write("alone", b"")
    with pytest.raises(platterfs.Error):
        platterfs.open("mirror:a.img,b.img", "r+")
    assert platterfs.mirror_rebuild("mirror:a.img,b.img", keep="b.img") == 1
    with platterfs.open("a.img") as volume:
        assert volume.exists("alone")
    os.remove("a.img")
    with pytest.raises(platterfs.Error, match="only current copy") as raised:
        platterfs.mirror_drop("mirror:a.img,b.img", "b.img")
    assert (raised.value.kind, raised.value.filename) == ("Protected", "b.img")
    for wrong in ["b.img", "mirror:a.img,b.img@2"]:
        with pytest.raises(platterfs.Error) as raised:
            platterfs.mirror_status(wrong)
        assert raised.value.errno == errno.EINVAL


def test_an_error_of_the_object_keeps_its_number():
    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    with pytest.raises(platterfs.Error) as raised:
        platterfs.check(Failing(bytes(MIB)))
    assert raised.value.errno in (errno.ENODEV, errno.EIO)
