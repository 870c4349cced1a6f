"""Append many records all or nothing, and once, however often the program runs.

Run it: python examples/transaction.py
"""

from tempfile import TemporaryDirectory

from storage_core import InvalidRequestError, Stream, StreamOptions, StreamReader

# Sequence number, customer, what was ordered.
ORDERS = [(1, 7, b"socks"), (2, 8, b"shoes"), (3, 9, b"hat")]


def import_orders(root: str, orders: list[tuple[int, int, bytes]]) -> None:
    """Append the orders of file 42. Leaving the block makes all of them durable, or none."""
    with (
        Stream.open(root, "orders") as stream,
        stream.transaction("file-42", rows_total=len(ORDERS)) as transaction,
    ):
        for number, customer, item in orders:
            transaction.append(number, customer, item)


def stored(root: str) -> int:
    """Return how many orders readers see."""
    with StreamReader.open(root, "orders") as reader:
        return reader.read().num_rows


with TemporaryDirectory() as root:
    Stream.create(root, "orders", StreamOptions(unit="sequence")).close()

    try:
        import_orders(root, ORDERS[:2])
    except InvalidRequestError:
        print(f"an order is missing, so the transaction is refused: {stored(root)} stored")

    import_orders(root, ORDERS)
    print(f"first run: {stored(root)} stored")

    # The same id again, as after a crash: the shards remember it, and nothing is appended.
    import_orders(root, ORDERS)
    print(f"second run: {stored(root)} stored")
