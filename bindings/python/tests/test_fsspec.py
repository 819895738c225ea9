import fsspec
import pandas
import platterfs
import pytest


def test_pandas_reads_a_table_from_refs(tmp_path):
    image = tmp_path / "refs.img"
    platterfs.mkfs(image, "refs", size=384 << 20)
    table = pandas.DataFrame({"number": range(20_000), "name": [f"n{n}" for n in range(20_000)]})
    with platterfs.open(image, "r+") as volume, volume.open("table.csv", "w") as file:
        table.to_csv(file, index=False)
    read = pandas.read_csv("platter://table.csv", storage_options={"source": str(image)})
    pandas.testing.assert_frame_equal(read, table)


def test_a_volume_is_a_file_system(ntfs, tmp_path):
    fs = fsspec.filesystem("platter", source=str(ntfs), mode="r+", skip_instance_cache=True)
    fs.makedirs("a/b")
    with pytest.raises(FileExistsError):
        fs.makedirs("a/b")
    with fs.open("platter://a/b/c.txt", "wb") as file:
        file.write(b"text")
    fs.pipe("a/d", b"piped")
    assert fs.cat("a/d") == b"piped" and fs.cat_file("a/d", 1, 3) == b"ip"
    assert sorted(fs.find("")) == ["a/b/c.txt", "a/d"]
    assert fs.info("/a/d")["size"] == 5 and fs.isdir("a/b") and not fs.exists("a/none")
    fs.mv("a/d", "e")
    fs.copy("e", "f")
    (tmp_path / "host").write_bytes(b"from outside")
    fs.put(str(tmp_path / "host"), "host")
    fs.get("a", str(tmp_path / "out"), recursive=True)
    assert (tmp_path / "out" / "b" / "c.txt").read_bytes() == b"text"
    assert sorted(fs.ls("", detail=False)) == ["a", "e", "f", "host"]
    assert sorted(fs.glob("a/**/*.txt")) == ["a/b/c.txt"]
    fs.rm("a", recursive=True)
    assert not fs.exists("a")
    fs.volume.close()
    assert platterfs.check(ntfs).clean
