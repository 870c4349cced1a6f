"""What of a stream may be gone: below its floor, where retention has taken rows or is about to.

What a window is made of, rows or the roll-ups of the level below, is all there only above the
floor. Whoever reads first and asks then errs on the safe side, since a floor never falls. What a
cap takes has no floor, so a stream that has one is refused.
"""

from storage_core import INT64_MIN, InvalidRequestError, StreamReader


def floor_of(reader: StreamReader, stream: str) -> int:
    """Return the primary below which rows of some shard have expired.

    Raises:
        InvalidRequestError: Rows go by a cap, so there is none.
    """
    refuse_caps(reader, stream)
    floors = [reader.shard(shard).state().floor for shard in reader.committed()]
    return max(floors, default=INT64_MIN)


def refuse_caps(reader: StreamReader, stream: str) -> None:
    """Refuse a stream whose rows go by how many there are.

    Raises:
        InvalidRequestError: It is one.
    """
    caps = {name: getattr(reader.options, name) for name in ("records_max", "bytes_max")}
    given = ", ".join(f"{name} {cap}" for name, cap in caps.items() if cap is not None)
    if given:
        message = (
            f"stream {stream!r} keeps no more than {given}: rows that a window needs may be gone, "
            "and nobody would know; bound it by retention instead"
        )
        raise InvalidRequestError(message)
