"""What tells of changes to a subscription: whoever waits for them, or a listener."""

import threading
from collections.abc import Callable

from storage_core.platform.overriding import override


class Changes(threading.Condition):
    """A condition that tells a listener, too.

    Attributes:
        listener: Called with each notification, by any thread, under the lock: it neither waits
            nor fails. None for nobody.
    """

    listener: Callable[[], None] | None = None

    @override
    def notify_all(self) -> None:
        """Wake all who wait, and tell the listener."""
        super().notify_all()
        if self.listener is not None:
            self.listener()
