import pathlib
import re

import platterfs


def test_every_example_of_the_first_page_runs(tmp_path, monkeypatch):
    page = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    platterfs.mkfs("disk.img", "ntfs", size=64 << 20)
    platterfs.mkfs("broken.img", "ntfs", size=64 << 20)
    with platterfs.open("disk.img", "r+") as volume:
        volume.mkdir("photos")
        volume.write("photos/list.txt", b"one\n")
        volume.write("a.bin", bytes(1000))
        volume.write("table.csv", b"a,b\n1,2\n")
        with volume.open("a.bin", "wb", stream="Zone.Identifier") as stream:
            stream.write(b"[ZoneTransfer]\nZoneId=3\n")
        volume.set_extended_attribute("a.bin", "KEY", b"value")
    names = {}
    for block in blocks:
        exec(block, names)  # noqa: S102
    assert names["text"] == b"one\n"
    assert platterfs.check("new.img").clean
    assert platterfs.mirror_status("mirror:b.img,c.img").whole


def test_the_cookbook_runs(tmp_path, monkeypatch):
    root = pathlib.Path(__file__).parent.parent.parent.parent
    page = (root / "docs" / "for-programs.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block, names)  # noqa: S102
    assert names["rest"] == b"two\n" and names["clean"]
    assert names["missing"].filename.endswith("log")
