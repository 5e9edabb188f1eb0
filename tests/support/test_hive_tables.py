"""The archives of Hive's tables keep every name and byte."""

import tarfile

import pytest

from tests.support.hive_tables import VERSIONS, archive_of, pack, unpack


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_any_name_and_content_survives_the_round_trip(tmp_path):
    names = [
        "plain/bucket_00000",
        "country=a%2Fb%3A é/month=1/bucket_0",
        "x=100%25 +&\\'\"/_orc_acid_version",
        "日本/€",
    ]
    for number, name in enumerate(names):
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        (tmp_path / "in" / name).write_bytes(bytes([number]) * number)
    pack(tmp_path / "in", tmp_path / "packed.tar.gz")
    unpack(tmp_path / "packed.tar.gz", tmp_path / "out")
    assert sorted(contents(tmp_path / "in")) == sorted(names)
    assert contents(tmp_path / "out") == contents(tmp_path / "in")


def test_the_same_files_give_the_same_archive(tmp_path):
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "file").write_bytes(b"content")
        pack(tmp_path / run, tmp_path / f"{run}.tar.gz")
    assert (tmp_path / "1.tar.gz").read_bytes() == (tmp_path / "2.tar.gz").read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_names_in_the_archives_are_ascii_and_partition_folders_are_not(version, tmp_path):
    with tarfile.open(archive_of(version)) as tar:
        assert all(name.isascii() for name in tar.getnames())
    unpack(archive_of(version), tmp_path)
    assert (tmp_path / "parts/country=a%2Fb%3A é/month=1").is_dir()
