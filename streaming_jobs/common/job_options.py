"""What jobs describe their options with, where it is installed: typer, of the extra `cli`.

A job is imported by name in programs of users, so that what is missing has to be told here.
"""

from storage_core.platform.extras import how_to_install

try:
    import typer
except ModuleNotFoundError as error:
    message = f"a job of Spark: {how_to_install('typer')}"
    raise ModuleNotFoundError(message, name="typer") from error

__all__ = ["typer"]
