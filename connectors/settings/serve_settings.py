"""The server beside a worker: the section `[serve]`, by the names of `shardlog serve`; `[page]`."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from connectors.settings.operations_settings import (
    FileName,
    check_address,
    is_loopback,
    split_address,
)
from connectors.settings.stream_settings import Section


class PageSettings(Section):
    """The page of that server.

    Attributes:
        enabled: Whether it is there.
    """

    enabled: bool = True


class WorkerServeSettings(Section):
    """Where a worker's streams are served, to whom, and how much.

    Attributes:
        listen: Host and port; port 0 takes a free one. Empty for nowhere.
        tls_cert: PEM file of the certificate and those above it.
        tls_key: PEM file of its key.
        read_token_file: Tokens that may read, one a line.
        write_token_file: Tokens that may write, and read.
        anonymous: Whether others than this machine may read without a token.
        command_listen: Host and port for a command a line, of this machine alone; empty for none.
        command_socket: Path of a Unix socket for the same.
        remembered_rows_max: Rows of a remembered query that SHOW answers with; 0 for all.
        remembered_hours_max: Since when they were stored; 0 for all.
        connections_max: Connections at once.
        answers_max: Answers with rows at once.
        rows_max: Rows of an answer; 0 for any number.
        seconds_max: Seconds of an answer.
        read_mib_max: MiB of rows that one `read` gathers.
        held_mib_max: MiB of such rows that all answers hold at once.
    """

    listen: Annotated[str, BeforeValidator(check_address)] = ""
    tls_cert: FileName | None = None
    tls_key: FileName | None = None
    read_token_file: FileName | None = None
    write_token_file: FileName | None = None
    anonymous: bool = False
    command_listen: Annotated[str, BeforeValidator(check_address)] = ""
    command_socket: FileName | None = None
    remembered_rows_max: Annotated[int, Field(ge=0)] = 0
    remembered_hours_max: Annotated[float, Field(ge=0, le=876_000)] = 0.0
    connections_max: Annotated[int, Field(ge=1, le=10_000)] = 256
    answers_max: Annotated[int, Field(ge=1, le=1000)] = 32
    rows_max: Annotated[int, Field(ge=0)] = 0
    seconds_max: Annotated[float, Field(ge=1)] = 3600.0
    read_mib_max: Annotated[int, Field(ge=1)] = 256
    held_mib_max: Annotated[int, Field(ge=1)] = 512

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.listen:
            return self
        if self.command_listen and not is_loopback(split_address(self.command_listen)[0]):
            message = (
                f"serve.command_listen: {self.command_listen} can be reached from other machines; "
                "name an address of this one, others send commands to POST /command"
            )
            raise ValueError(message)
        if (self.tls_cert is None) != (self.tls_key is None):
            message = "TLS needs a certificate and its key: serve.tls_cert and serve.tls_key"
            raise ValueError(message)
        has_tokens = self.read_token_file is not None or self.write_token_file is not None
        host, _ = split_address(self.listen)
        if not is_loopback(host) and not has_tokens and not self.anonymous:
            message = (
                f"{self.listen} can be reached from other machines: name a file of tokens by "
                "serve.read_token_file, or let anybody read with serve.anonymous = true"
            )
            raise ValueError(message)
        return self
