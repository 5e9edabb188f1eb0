"""Every failure is reported in one line, without a traceback and without a password."""

from __future__ import annotations

import pytest

from hive_ingest.cli.failures import one_line, printable, report, without_passwords
from hive_ingest.errors import InvalidTable


def test_an_error_of_the_package_is_printed_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(InvalidTable("web.x:\n  it is not transactional"), with_traceback=False) == 1
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "error: web.x: it is not transactional\n")


def test_notes_added_during_cleanup_are_reported_too(capsys: pytest.CaptureFixture[str]) -> None:
    error = InvalidTable("first")
    error.add_note("and, while cleaning up: second")
    report(error, with_traceback=False)
    assert capsys.readouterr().err == "error: first (and, while cleaning up: second)\n"


def test_any_other_error_is_called_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(KeyError("x"), with_traceback=False) == 1
    assert capsys.readouterr().err.startswith("error: unexpected KeyError: 'x'. This is a bug")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UnicodeEncodeError("ascii", "é", 0, 1, "?"), "does not have '\\xe9': set PYTHONIOENCODING=utf-8"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    ],
)
def test_an_output_that_takes_no_more_is_no_bug(
    error: Exception, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error, with_traceback=False) == 1
    output = capsys.readouterr().err
    assert text in output
    assert "This is a bug" not in output


def test_a_traceback_comes_when_it_is_asked_for_and_hides_passwords(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("postgresql+psycopg://me:s3cr%40t@host/db is down")
    except ValueError as error:
        report(error, with_traceback=True)
    output = capsys.readouterr().err
    assert "Traceback" in output
    assert output.rstrip().splitlines()[-1].startswith("error: unexpected ValueError")
    assert "s3cr" not in output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x://u:p@h/d y", "x://u:***@h/d y"),
        ("x://:p@h", "x://:***@h"),
        ("x://u:p@q@h", "x://u:***@h"),
        ("x://u@h:5432/d", "x://u@h:5432/d"),
        ("sqlite:////a:b/c@d.db", "sqlite:////a:b/c@d.db"),
    ],
)
def test_passwords_in_addresses_are_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


def test_no_terminal_control_sequence_gets_through() -> None:
    assert printable("\x1b[31mred\x07 ü 語") == "\\x1b[31mred\\x07 ü 語"
    assert one_line("a\r\n\tb\x00") == "a b\\x00"
