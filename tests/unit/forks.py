"""A call made in a forked child of the test's own process."""

import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress


def in_fork(call: Callable[[], object]) -> object:
    """Make a call in a forked child; return what it returned or raised."""
    ours, its = os.pipe()
    with warnings.catch_warnings():
        # NOTE: from Python 3.12 on a fork beside threads is warned of, which is what is tried here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        answer: object = None
        try:
            answer = call()
            answer = list(answer) if isinstance(answer, Iterator) else answer
        except BaseException as error:  # noqa: BLE001 - told to the parent
            answer = type(error)(str(error))
        finally:
            with suppress(BaseException):
                os.write(its, pickle.dumps(answer))
            os._exit(0)
    os.close(its)
    with os.fdopen(ours, "rb") as answers:
        text = answers.read()
    assert os.waitpid(child, 0) == (child, 0)
    return pickle.loads(text)  # noqa: S301 - our own child's
