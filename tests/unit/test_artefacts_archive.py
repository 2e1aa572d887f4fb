"""One artefact, one digest: what makes it and what does not; and where code may not come from."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from towpath.artefacts import archive
from towpath.artefacts.archive import digest_of, pack
from towpath.artefacts.root import as_called, resolve_inside
from towpath.contracts.errors import ErrorCode, TowpathError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


def write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        path = directory / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def zipped(path: Path, *entries: tuple[str, str], time: tuple[int, int, int, int, int, int]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in entries:
            file.writestr(zipfile.ZipInfo(name, time), text, zipfile.ZIP_DEFLATED)
    return path


def names(content: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(content)).namelist()


def test_digest_when_order_and_times_differ_then_it_is_the_same(root: Path) -> None:
    first = write(root / "first", a="A = 1", pkg__b="B = 2")
    second = write(root / "second", pkg__b="B = 2", a="A = 1")
    for path in second.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    archived = [
        zipped(root / "one.zip", ("a.py", "A = 1"), ("pkg/b.py", "B = 2"), time=(2001, 1, 1, 0, 0, 0)),
        zipped(root / "two.zip", ("pkg/b.py", "B = 2"), ("a.py", "A = 1"), time=(2020, 1, 1, 0, 0, 0)),
    ]

    digests = {digest_of(pack(path, root)) for path in (first, second, *archived)}

    assert len(digests) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda d: (d / "a.py").write_text("A = 2"),
        lambda d: (d / "a.py").rename(d / "c.py"),
        lambda d: (d / "data.csv").write_text("1,2"),
    ],
    ids=["content", "name", "another file"],
)
def test_digest_when_the_content_differs_then_it_is_another(
    root: Path, change: Callable[[Path], object]
) -> None:
    code = write(root / "code", a="A = 1", b="")
    before = digest_of(pack(code, root))
    change(code)
    assert digest_of(pack(code, root)) != before


def test_directory_when_it_was_imported_from_then_what_python_left_there_does_not_count(root: Path) -> None:
    code = write(root / "code", a="A = 1")
    before = pack(code, root)
    write(code / ".venv", unrelated="")
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"\0")
    assert pack(code, root) == before


def test_wheel_when_packed_then_it_stays_as_it_is(root: Path) -> None:
    wheel = zipped(root / "p-1-py3-none-any.whl", ("p.py", ""), time=(2020, 2, 2, 2, 2, 2))
    assert pack(wheel, root) == wheel.read_bytes()


def test_links_when_they_stay_inside_the_root_then_they_are_followed(root: Path) -> None:
    write(root / "shared", helper="H = 1")
    code = write(root / "code", job="")
    (code / "lib").symlink_to(root / "shared")
    assert names(pack(code, root)) == ["job.py", "lib/helper.py"]


def _outside(root: Path) -> Path:
    return write(root.parent / "elsewhere", secret="S = 1")


@pytest.mark.parametrize(
    "make",
    [
        lambda root: "../elsewhere",
        lambda root: str(_outside(root)),
        lambda root: "code/../../elsewhere",
        lambda root: (root / "link").symlink_to(_outside(root)) or "link",
        lambda root: str(root) + "-beside",
        lambda root: "/",
    ],
    ids=["dots", "absolute", "dots within", "link", "name begins alike", "everything"],
)
def test_path_when_it_leads_out_of_the_root_then_it_is_refused_naming_the_root(
    root: Path, make: Callable[[Path], str]
) -> None:
    write(root / "code", a="")
    _outside(root)
    (root.parent / f"{root.name}-beside").mkdir()
    named = make(root)
    with pytest.raises(TowpathError) as refused:
        resolve_inside(root, named)
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "operator.artefact", named)
    assert str(root) in str(detail.allowed)


def test_path_when_relative_then_it_begins_at_the_root(root: Path) -> None:
    code = write(root / "jobs" / "code", a="")
    assert resolve_inside(root, "jobs/code") == resolve_inside(root, str(code)) == code


def test_path_when_nothing_is_there_then_it_is_refused_naming_the_root(root: Path) -> None:
    with pytest.raises(TowpathError, match=f"no such file.*{root}"):
        resolve_inside(root, "nowhere.zip")


def test_path_when_the_root_is_in_a_container_then_it_is_found_as_people_name_it(root: Path) -> None:
    called = Path("/home/ann/jobs")
    code = write(root / "code", a="")
    for named in ("code", "/home/ann/jobs/code"):
        assert resolve_inside(root, named, called) == code


@pytest.mark.parametrize(
    "named", ["/home/ann/jobs/../elsewhere", "/home/ann/jobs-beside", "{root}/../elsewhere"]
)
def test_path_when_the_root_is_in_a_container_then_nothing_beside_it_is_found(root: Path, named: str) -> None:
    _outside(root)
    with pytest.raises(TowpathError, match="must be in the artefact root") as refused:
        resolve_inside(root, named.format(root=root), Path("/home/ann/jobs"))
    assert "/home/ann/jobs;" in str(refused.value.detail.allowed)


def test_refusal_when_the_root_is_in_a_container_then_names_paths_as_people_know_them(root: Path) -> None:
    code = write(root / "code", a="")
    (code / "link").symlink_to(_outside(root))
    with pytest.raises(TowpathError) as refused:
        pack(code, root)
    detail = as_called(refused.value, root, Path("/home/ann/jobs")).detail
    assert detail.value == "/home/ann/jobs/code/link"
    assert "/home/ann/jobs;" in str(detail.allowed)


def test_path_when_its_directory_may_not_be_entered_then_it_is_refused_saying_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)  # Root may enter everything.
    with pytest.raises(TowpathError, match="may not read this file"):
        resolve_inside(root, "code")


@pytest.mark.parametrize("link", ["code/data.py", "code/deep/data"])
def test_link_in_a_directory_when_it_leads_out_of_the_root_then_nothing_is_packed(
    root: Path, link: str
) -> None:
    write(root / "code", a="")
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(_outside(root) / ("secret.py" if link.endswith(".py") else ""))
    with pytest.raises(TowpathError) as refused:
        pack(root / "code", root)
    assert refused.value.detail.code is ErrorCode.NOT_ALLOWED


def test_link_when_it_leads_to_a_directory_above_itself_then_that_is_said(root: Path) -> None:
    code = write(root / "code", a="")
    (code / "again").symlink_to(code)
    with pytest.raises(TowpathError, match="a directory that contains it"):
        pack(code, root)


def _empty(root: Path) -> Path:
    (root / "empty").mkdir()
    return root / "empty"


def _climbing(root: Path) -> Path:
    return zipped(root / "climbing.zip", ("../a.py", ""), time=(2020, 1, 1, 0, 0, 0))


def _broken(root: Path) -> Path:
    (root / "broken.zip").write_bytes(b"PK\3\4 no zip")
    return root / "broken.zip"


def _pipe(root: Path) -> Path:
    code = write(root / "piped", a="")
    os.mkfifo(code / "waits.py")
    return code


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_empty, "contains no Python module"),
        (_climbing, r"holds '\.\./a\.py'"),
        (_broken, "is not a readable zip"),
        (lambda root: write(root, module="") / "module.py", "neither a wheel nor a zip nor a directory"),
        (_pipe, "neither a file nor a directory"),
    ],
    ids=["empty", "climbing", "broken", "module", "pipe"],
)
def test_artefact_when_it_is_not_what_it_should_be_then_the_refusal_says_so(
    root: Path, make: Callable[[Path], Path], why: str
) -> None:
    with pytest.raises(TowpathError, match=why) as refused:
        pack(make(root), root)
    assert refused.value.detail.field == "operator.artefact"


def test_artefact_when_it_is_too_large_then_it_is_refused_however_small_its_zip(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 100_000)
    code = write(root / "code", a="", b="#" * 60_000, c="#" * 60_000)
    bomb = zipped(root / "bomb.zip", ("a.py", "#" * 200_000), time=(2020, 1, 1, 0, 0, 0))
    assert bomb.stat().st_size < 10_000
    for path in (code, bomb):
        with pytest.raises(TowpathError, match="too large"):
            pack(path, root)


@pytest.mark.parametrize("name", ["own.zip", "own.whl"])
def test_zip_when_its_content_is_damaged_then_is_refused_naming_it(root: Path, name: str) -> None:
    path = zipped(root / name, ("own.py", "A = 1\n" * 100), time=(2026, 1, 1, 0, 0, 0))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        begin = file.infolist()[0].header_offset + 30 + len("own.py")
    content[begin : begin + 8] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(TowpathError, match=name):
        pack(path, root)


def test_directory_when_a_name_is_no_text_then_is_refused_naming_it(root: Path) -> None:
    directory = write(root / "own", own="A = 1")
    (directory / os.fsdecode(b"caf\xe9.py")).write_text("")
    with pytest.raises(TowpathError, match="name is no text"):
        pack(directory, root)


def test_wheel_when_it_would_unpack_to_too_much_then_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    path = zipped(root / "own.whl", ("own.py", "#" * 2000), time=(2026, 1, 1, 0, 0, 0))
    assert path.stat().st_size < 1000
    with pytest.raises(TowpathError):
        pack(path, root)
