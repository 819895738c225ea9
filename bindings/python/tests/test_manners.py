"""What programs in Python expect of a package: names in errors, a version, types."""

import errno
import subprocess
import sys
import textwrap

import platterfs
import pytest


def test_an_error_names_what_it_is_about(ntfs, tmp_path):
    with platterfs.open(ntfs) as volume:
        with pytest.raises(FileNotFoundError) as raised:
            volume.read("/no/such")
    error = raised.value
    assert error.errno == errno.ENOENT and error.filename == error.about
    assert error.filename.endswith("no/such") and error.strerror == "no such file or directory"
    assert str(error).count("no/such") == 1
    missing = tmp_path / "missing.img"
    for call in (platterfs.open, platterfs.check):
        with pytest.raises(FileNotFoundError) as raised:
            call(missing)
        assert "missing.img" in str(raised.value)
    text = tmp_path / "text"
    text.write_text("no volume\n" * 1000)
    with pytest.raises(platterfs.Error) as raised:
        platterfs.open(text)
    assert raised.value.kind == "NotAVolume" and raised.value.filename == str(text)
    assert raised.value.errno == errno.EINVAL


def test_the_package_has_a_version():
    parts = platterfs.__version__.split(".")
    assert len(parts) == 3 and all(part.isdigit() for part in parts)


def test_types_are_known_to_their_last(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import io
            import platterfs

            def names(source: str) -> list[str]:
                with platterfs.open(source) as volume:
                    reader: io.BufferedReader = volume.open("a")
                    writer: io.BufferedWriter = volume.open("b", "wb")
                    both: io.BufferedRandom = volume.open("b", "r+b")
                    text: io.TextIOWrapper = volume.open("c", "w", encoding="utf-8")
                    raw: platterfs.File = volume.open("d", "rb", 0)
                    line: str = text.readline()
                    data: bytes = reader.read() + both.read()
                    _ = (writer, raw, line, data)
                    return [entry.path for entry in volume.walk("/") if entry.kind == "file"]

            def damage(source: str) -> int:
                report = platterfs.check(source)
                version: str = platterfs.__version__
                return sum(finding.severity == "data-loss" for finding in report.findings) + len(version)

            def told(done: int, total: int, step: str) -> None:
                print(done, total, step.upper())

            def everything(source: str, memory: io.BytesIO) -> list[str]:
                undo = platterfs.check(memory, repair=True, undo="kept", progress=told).undo
                blocks: int = platterfs.undo(undo, source, progress=told).blocks if undo else 0
                scrubbed = platterfs.scrub(source, limit=blocks, start=None, progress=told)
                findings: list[platterfs.Finding] = [*scrubbed.damaged]
                platterfs.mkfs(memory, "ntfs", full=True, progress=lambda done, total, step: None)
                lost = platterfs.recover(memory, "to", patterns=["*.jpg"], progress=told).lost
                platterfs.mirror_rebuild(source, keep="a.img", progress=told)
                platterfs.mirror_drop(source, "b.img")
                copies = platterfs.mirror_status(source).copies
                left = [copy.name for copy in copies if copy.standing == "left-out"]
                return [path for path, _ in lost] + left + [finding.code for finding in findings]

            try:
                names("disk.img")
            except platterfs.DamageError as error:
                position: int | None = error.position
                name: str = error.filename
            """
        )
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path)]
    for what in ([str(program)], ["-p", "platterfs"]):
        done = subprocess.run([*mypy, *what], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr
