"""A group of verbs, whose help and that of its verbs loads no pydantic."""

from typing import Any

from typer.core import TyperGroup


class Group(TyperGroup):
    """Verbs below a name."""

    def get_help_option(self, ctx: Any) -> Any:  # noqa: ANN401 - as typer calls it
        """Return --help with a value where it is not given.

        NOTE: what an option without a value is, typer 0.29 asks pydantic, which takes as long to
        load as all that the help of a verb needs.
        """
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option
