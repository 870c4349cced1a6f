"""What a caller consents to that publishing else refuses."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Consent:
    """What a caller consents to.

    Attributes:
        hole: The table may lack rows between the published address and the first one of the log.
        take_over: Shards are published that other logs publish, in their place.
        repair: Files that the table or its store has lost are uploaded again.
        create: A table is made where this root has published one that is gone, unless that had the
            only file of some parts.
        damaged: Paths of files that the store has otherwise, though of the same size: they are
            uploaded again, too.
        nowhere: Digests of parts whose file nobody has any more: they are left as they are.
    """

    hole: bool = False
    take_over: bool = False
    repair: bool = False
    create: bool = False
    damaged: frozenset[str] = frozenset()
    nowhere: frozenset[str] = frozenset()
