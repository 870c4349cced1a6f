"""Where a client's token and certificates come from, and what is told where they do not."""

import pytest

from storage_core import InvalidRequestError, ServerOptions

TOKEN = "the-token-itself"  # noqa: S105 - of these tests


def test_what_is_said_comes_before_the_environment(monkeypatch, tmp_path):
    path = tmp_path / "token"
    path.write_text(f"\n# a comment\n  {TOKEN}\nanother\n")
    monkeypatch.setenv("SHARDLOG_SERVER_TOKEN", "of-the-environment")
    assert ServerOptions().current_token() == "of-the-environment"
    monkeypatch.setenv("SHARDLOG_SERVER_TOKEN_FILE", str(path))
    assert ServerOptions().current_token() == TOKEN
    assert ServerOptions(token="said").current_token() == "said"  # noqa: S106 - as above
    monkeypatch.delenv("SHARDLOG_SERVER_TOKEN_FILE")
    assert ServerOptions(token_file=path).current_token() == TOKEN


def test_without_any_there_is_no_token(monkeypatch):
    monkeypatch.delenv("SHARDLOG_SERVER_TOKEN", raising=False)
    monkeypatch.delenv("SHARDLOG_SERVER_TOKEN_FILE", raising=False)
    assert ServerOptions().current_token() is None


@pytest.mark.parametrize("content", ["", "# only this\n", "two words", "t\xf6ken", "x" * 5000])
def test_token_that_no_header_carries_is_refused_and_not_repeated(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(InvalidRequestError) as raised:
        ServerOptions(token_file=path).current_token()
    assert str(path) in str(raised.value)
    assert not content or content not in str(raised.value)


def test_files_that_are_not_there_are_told_by_their_path(tmp_path):
    with pytest.raises(InvalidRequestError, match=r"token cannot be read.*nowhere"):
        ServerOptions(token_file=tmp_path / "nowhere").current_token()
    with pytest.raises(InvalidRequestError, match=r"certificates.*cannot be read.*nowhere"):
        ServerOptions(ca_file=tmp_path / "nowhere").tls_context()


def test_file_without_certificates_is_refused(tmp_path):
    path = tmp_path / "none.pem"
    path.write_text("no certificate")
    with pytest.raises(InvalidRequestError, match="certificates"):
        ServerOptions(ca_file=path).tls_context()


def test_token_is_in_no_text():
    assert TOKEN not in repr(ServerOptions(token=TOKEN))
