import errno
import io
import mmap
import os
import threading

import platterfs
import pytest


def test_files_are_written_and_read(image, content):
    with platterfs.open(image, "r+") as volume:
        volume.makedirs("/one/two")
        volume.write("one/two/a.bin", content)
        with volume.open("one/text", "w") as file:
            file.write("zwölf\n" * 3)
        with volume.open("one/text", "a") as file:
            file.write("more\n")
        with volume.open("one/two/a.bin", "r+b") as file:
            file.seek(-5, os.SEEK_END)
            file.write(b"tail!")
        with pytest.raises(FileExistsError):
            volume.open("one/text", "x")
        volume.rename("one/text", "text")
        volume.utime("text", modified_ns=10**18)
        volume.remove("nothing") if volume.exists("nothing") else None
    with platterfs.open(str(image)) as volume:
        assert volume.info().label == "PYTHON"
        assert sorted(entry.path for entry in volume.walk()) == ["one", "one/two", "one/two/a.bin", "text"]
        assert volume.read("one/two/a.bin") == content[:-5] + b"tail!"
        stat = volume.stat("text")
        assert (stat.kind, stat.modified_ns) == ("file", 10**18)
        tells_case_apart = volume.info().format.startswith("NTFS")
        assert volume.exists("TEXT") != tells_case_apart
        with volume.open("text" if tells_case_apart else "TEXT", "r") as file:
            assert list(file) == ["zwölf\n"] * 3 + ["more\n"]
        raw = volume.open("one/two/a.bin", "rb", buffering=0)
        assert raw.read(10) == content[:10] and raw.tell() == 10
        with pytest.raises(PermissionError):
            volume.write("new", b"")
        with pytest.raises(io.UnsupportedOperation):
            raw.write(b"x")
        kept = raw
    assert kept.read(1) == content[10:11]  # a file keeps its volume open
    with pytest.raises(ValueError):
        volume.listdir()
    assert platterfs.check(image).clean


def test_streams_and_attributes(ntfs):
    with platterfs.open(ntfs, "r+") as volume:
        volume.write("a", b"content")
        with volume.open("a", "wb", stream="Zone.Identifier") as stream:
            stream.write(b"[ZoneTransfer]")
        volume.set_extended_attribute("a", "KEY", b"value")
        volume.link("a", "b")
        volume.symlink("a", "c")
    with platterfs.open(ntfs) as volume:
        (stream,) = volume.streams("b")
        assert (stream.name, stream.size) == ("Zone.Identifier", 14)
        assert volume.open("b", "rb", stream="zone.identifier").read() == b"[ZoneTransfer]"
        assert volume.extended_attributes("a") == {"KEY": b"value"}
        assert volume.stat("a").links == 2
        assert (volume.stat("c").kind, volume.readlink("c")) == ("symlink", "a")


def test_trees_are_copied_in_and_out(image, content, tmp_path):
    tree = tmp_path / "tree"
    (tree / "inside").mkdir(parents=True)
    (tree / "a.bin").write_bytes(content)
    (tree / "inside" / "empty").write_bytes(b"")
    os.utime(tree / "a.bin", ns=(10**18, 10**18))
    os.symlink("a.bin", tree / "link")
    with platterfs.open(image, "r+") as volume:
        copied = volume.copy_in(tree, "/copy")
        has_links = volume.exists("copy/link")
        assert copied.failures == 0 and copied.failed == []
        assert copied.bytes == len(content) and copied.files == 2 + has_links
        assert ("symbolic link (left out)" in [kind for kind, _ in copied.lost]) == (not has_links)
        assert copied.losses == len(copied.lost)
        assert volume.copy_in(tree, "copy").files == copied.files  # a directory that is there
        assert volume.read("copy/tree/a.bin") == content
        with pytest.raises(FileNotFoundError):
            volume.copy_in(tmp_path / "none", "x")
        assert volume.copy_in(tree, "copy/tree/a.bin").failures > 0
    with platterfs.open(image) as volume:
        assert volume.stat("copy/a.bin").modified_ns == 10**18
        back = volume.copy_out("copy", tmp_path / "back")
        assert (back.failures, back.bytes) == (0, 2 * len(content))
        volume.copy_out("copy/a.bin", tmp_path / "inside")
    assert (tmp_path / "back" / "a.bin").read_bytes() == content
    assert (tmp_path / "back" / "a.bin").stat().st_mtime_ns == 10**18
    assert (tmp_path / "inside").read_bytes() == content
    assert os.path.islink(tmp_path / "back" / "link") == has_links
    with pytest.raises(ValueError):
        volume.copy_out("copy", tmp_path)


def test_errors_are_those_of_python(ntfs, tmp_path):
    with platterfs.open(ntfs, "r+") as volume:
        volume.makedirs("d/e")
        for call, kind, number in [
            (lambda: volume.read("none"), FileNotFoundError, errno.ENOENT),
            (lambda: volume.read("d"), IsADirectoryError, errno.EISDIR),
            (lambda: volume.mkdir("d"), FileExistsError, errno.EEXIST),
            (lambda: volume.rmdir("d"), platterfs.Error, errno.ENOTEMPTY),
            (lambda: volume.write("n" * 300, b""), platterfs.Error, errno.ENAMETOOLONG),
        ]:
            with pytest.raises(kind) as raised:
                call()
            assert isinstance(raised.value, platterfs.Error) and raised.value.errno == number
    assert raised.value.kind == "InvalidName"
    with pytest.raises(FileNotFoundError):
        platterfs.open(tmp_path / "none")
    with pytest.raises(ValueError):
        platterfs.open(ntfs, "w")
    with pytest.raises(platterfs.Error) as raised:
        platterfs.mkfs(ntfs, "refs")
    assert raised.value.kind == "Protected"


def test_a_file_object_is_a_source(image, content):
    with open(image, "r+b") as file, platterfs.open(file, "r+") as volume:
        volume.write("a", content)
    data = io.BytesIO(image.read_bytes())
    assert platterfs.open(data).read("a") == content
    assert platterfs.open(image).read("a") == content

    class Broken(io.BytesIO):
        def read(self, length):
            raise RuntimeError("no such luck")

    with pytest.raises(OSError, match="no such luck"):
        platterfs.open(Broken(data.getvalue()))


def test_threads_share_a_file_object(ntfs, content):
    with platterfs.open(ntfs, "r+") as volume:
        for number in range(8):
            volume.write(f"f{number}", content[number:])
    with open(ntfs, "rb") as file:
        volume = platterfs.open(file)
        wrong = []

        def read(number):
            for _ in range(20):
                with volume.open(f"f{number}") as one:
                    if one.read() != content[number:]:
                        wrong.append(number)

        threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        assert not wrong and not any(thread.is_alive() for thread in threads)


def test_damage_has_a_place(tmp_path):
    image = tmp_path / "refs.img"
    platterfs.mkfs(image, "refs", size=384 << 20, integrity=True)
    with platterfs.open(image, "r+") as volume:
        volume.write("a", b"\x07" * 100_000)
    with open(image, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        at = data.find(b"\x07" * 4096)
        data[at] = 8
    with platterfs.open(image) as volume, pytest.raises(platterfs.DamageError) as raised:
        volume.read("a")
    damage = raised.value
    assert damage.errno == errno.EIO and damage.position == at and damage.structure
    assert damage.expected != damage.found
    report = platterfs.check(image, data=True)
    assert not report.clean and report.findings[0].path == "/a" and report.findings[0].severity == "data-loss"
    recovered = platterfs.recover(image, tmp_path / "rescued")
    assert recovered.files == 1 and len(recovered.lost) == 1
    assert len((tmp_path / "rescued" / "a").read_bytes()) == 100_000


def _in_child(call):
    """Calls in a process made by os.fork, and returns what it returned or raised, as text."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(call())
        except Exception as error:
            said = type(error).__name__ + " " + str(error)
        os.write(writes, said.encode())
        os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with os.fdopen(reads) as pipe:
        return pipe.read()


def test_a_forked_process_writes_nothing_without_a_word(image):
    with platterfs.open(image, "r+") as volume:
        volume.write("before", b"1")
        file = volume.open("before", "r+b", buffering=0)
        for call in [lambda: volume.write("child", b"2"), lambda: file.write(b"3"), volume.sync, volume.close]:
            assert "another process" in _in_child(call)
        volume.write("parent", b"4")
        file.close()
    with platterfs.open(image) as volume:
        assert sorted(volume.listdir()) == ["before", "parent"]
        assert volume.read("before") == b"1"
        assert _in_child(lambda: volume.read("parent")) == "b'4'"


def test_a_recovery_counts_and_chooses(ntfs, tmp_path):
    with platterfs.open(ntfs, "r+") as volume:
        volume.write("a.jpg", b"one")
        volume.write("b.txt", b"two")
    recovered = platterfs.recover(ntfs, tmp_path / "all")
    assert (recovered.saved, recovered.failed) == (2, 0)
    recovered = platterfs.recover(ntfs, tmp_path / "some", patterns=["*.JPG"])
    assert recovered.saved == 1 and [path.name for path in (tmp_path / "some").iterdir()] == ["a.jpg"]
    with pytest.raises(ValueError):
        platterfs.recover(ntfs, tmp_path / "none", patterns=["["])


def test_a_range_beyond_the_last_offset_is_refused(image):
    with platterfs.open(image, "r+") as volume:
        volume.write("a", b"text")
        with volume.open("a", "rb", buffering=0) as file:
            file.seek((1 << 64) - 10)
            with pytest.raises((ValueError, OSError)):
                file.read(4096)
