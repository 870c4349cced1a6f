"""Maintenance of a stream beside appends: expire, seal, compact, trim, verify, accept a loss."""

from datetime import timedelta
from functools import partial

from storage_core.engine.environment import Environment
from storage_core.errors import InvalidRequestError
from storage_core.open_shards import OpenShards
from storage_core.parts.progress import OnRows
from storage_core.platform.loading import loading
from storage_core.read.request import integer, span_ms
from storage_core.retention.expiry import expire_shard, terms_of
from storage_core.retention.expiry_report import ExpiryReport
from storage_core.tiering.expired_parts import remove_expired_parts
from storage_core.tiering.part_builder import PartBuilder
from storage_core.tiering.report import TieringReport
from storage_core.verify.schema_checks import fingerprint_of
from storage_core.verify.verify import Progress, VerifyLimits, VerifyReport, verify_shard
from storage_core.write.shard import Shard


class StreamMaintenance:
    """Maintenance of the open shards, one after the other; each call has a shard to itself."""

    def __init__(self, shards: OpenShards[Shard], environment: Environment) -> None:
        """Look after these shards."""
        self._shards = shards
        self._environment = environment

    def expire(self, now: int | None = None, dry_run: bool = False) -> ExpiryReport:  # noqa: FBT001, FBT002 - the contract's signature
        """Let what the open shards keep beyond `retention` and caps go; durable on return.

        Rows below `now` - retention are hidden at once. They go from the disk by whole windows
        and blocks, at a cost that does not grow with the rows; appends and reads go on beside it.

        Args:
            now: The time to judge by, in the stream's unit; None for the clock's.
            dry_run: Only tell what would go: `rows` from the disk, and `hidden` from all reads.

        Raises:
            UnavailableError: A shard was held by another call for too long; the others before
                it, by number, are done.

        Example:
            >>> from datetime import timedelta
            >>> stream.alter(retention=timedelta(days=7))
            >>> stream.expire(now=1_700_000_000_000, dry_run=True).hidden
            0
        """
        shards = self._shards.opened()
        terms = terms_of(self._shards.files, now, self._environment.clock)
        done = {n: expire_shard(shard, terms, is_dry_run=dry_run) for n, shard in shards.items()}
        for shard in shards.values() if not dry_run else ():
            remove_expired_parts(shard)
        return ExpiryReport(done, is_dry_run=dry_run)

    def seal(
        self,
        rows_min: int = 1,
        progress: OnRows | None = None,
        *,
        rebuild: bool = False,
        builder: PartBuilder | None = None,
    ) -> TieringReport:
        """Build parts of what is committed and not sealed in the open shards; durable on return.

        Parts are files of Parquet, sorted by id and time, typed where a schema wrote the values;
        `parts` tells where they lie. The log keeps the rows until `trim`. Appends and reads go on
        beside it.

        Args:
            rows_min: Of a shard that has fewer unsealed rows nothing is sealed.
            progress: Called again and again with how many rows are done so far; of a step of a
                million that is under way with about how many.
            rebuild: First read all parts, and build those again whose files are damaged or gone.
                Of a stream that is `never_cold` nothing more is done.
            builder: A process that builds the files of parts, which tells no progress; None for
                doing so here.

        Raises:
            InvalidRequestError: The stream is `never_cold`.
            LostRangeError: A part is damaged, and the log has lost rows of it too.
            UnavailableError: The disk refuses, or a shard was held by another call for too long;
                what was sealed before stays.

        Example:
            >>> stream.seal().rows
            1
        """
        # Only who seals needs it, and it takes 100 ms.
        with loading(self._shards.files.meta.name):
            from storage_core.tiering.rebuild import rebuild_parts  # noqa: PLC0415
            from storage_core.tiering.seal import seal_shard  # noqa: PLC0415
            from storage_core.tiering.step import run_all  # noqa: PLC0415

        shards, least = self._shards.opened(), max(1, integer("rows_min", rows_min))
        is_never = self._shards.options.never_cold
        if is_never and not rebuild:
            message = (
                "the stream is never_cold: its rows live shortly and become no parts; "
                "alter(never_cold=False) lets them"
            )
            raise InvalidRequestError(message, stream=self._shards.files.meta.name)
        rebuilt = {n: rebuild_parts(shard) for n, shard in shards.items()} if rebuild else {}
        step = _nothing if is_never else partial(seal_shard, rows_min=least)
        build = None if builder is None else builder.build
        report = run_all(shards.values(), step, progress, builder=build)
        return report.after(rebuilt) if rebuilt else report

    def compact(self, progress: OnRows | None = None) -> TieringReport:
        """Merge small neighbouring parts of the open shards into larger ones; durable on return.

        More than four of a level become one of the next, so that each row is written a few times
        and there are few parts, however often rows were sealed. Appends and reads go on beside it.

        Args:
            progress: Called again and again with how many rows are done so far, each as often as
                it is written.

        Raises:
            CorruptionError: A part is damaged; `seal` with `rebuild` builds it again.
            UnavailableError: The disk refuses, or a shard was held by another call for too long;
                what was merged before stays so.

        Example:
            >>> stream.compact().rows
            0
        """
        # Only who compacts needs it, and it takes 100 ms.
        with loading(self._shards.files.meta.name):
            from storage_core.tiering.compact import compact_shard  # noqa: PLC0415
            from storage_core.tiering.step import run_all  # noqa: PLC0415

        return run_all(self._shards.opened().values(), compact_shard, progress)

    def maintain(self, builder: PartBuilder | None = None) -> TieringReport:
        """Do what is due in the open shards' parts, a bounded step in each; durable on return.

        A shard's rows are sealed once `seal_rows` of them wait, or the oldest is `seal_after` old;
        small parts are merged; and blocks are deleted that are sealed and older than `keep_hot`.
        Call it again and again, from a thread of its own: appends, commits and reads go on beside
        it. Pause where the report `is_idle`, as a worker does for ten seconds: a thread that asks
        without a pause takes the interpreter from appends. A stream that is `never_cold` is left
        alone.

        Args:
            builder: A process that builds the files of parts, and proves them before blocks are
                deleted, so that appends keep this one's time; None for doing so here.

        Raises:
            UnavailableError: The disk refuses, or a shard was held by another call for too long,
                or the builder process died; the shards before it are done.
            CorruptionError: A part that was to be merged is damaged.

        Example:
            >>> stream.maintain().rows_sealed
            0
        """
        # Only who maintains needs it, and it takes 100 ms.
        with loading(self._shards.files.meta.name):
            from storage_core.tiering.build import build_here  # noqa: PLC0415
            from storage_core.tiering.maintain import maintain_shard  # noqa: PLC0415

        build = build_here if builder is None else builder.build
        shards, options = self._shards.opened().items(), self._shards.options
        return TieringReport({n: maintain_shard(shard, options, build) for n, shard in shards})

    def first_committed_ms(self, shard: int, start: int) -> int | None:
        """Return when the first row of an open shard at or above an address was committed.

        Args:
            shard: The shard's number.
            start: The address.

        Returns:
            Milliseconds since 1970; None where nothing is committed at or above it.

        Example:
            >>> stream.first_committed_ms(3, 0) > 1_700_000_000_000
            True
        """
        with loading(self._shards.files.meta.name):
            from storage_core.tiering.maintain import first_committed_ms  # noqa: PLC0415

        return first_committed_ms(self._shards.shard(shard), integer("start", start))

    def trim(
        self, keep_hot: timedelta = timedelta(0), progress: OnRows | None = None
    ) -> TieringReport:
        """Delete blocks whose rows are in parts; durable on return.

        Each block is first rebuilt of its parts and compared. From then on parts alone have its
        rows: every read returns them as before, slower where it asks for few, and a damaged part is
        a loss.

        Args:
            keep_hot: Blocks that were committed less long ago stay, and all behind them.
            progress: Called again and again with of how many rows the blocks were compared so far.

        Raises:
            CorruptionError: A block is damaged, or its parts are; it stays.
            UnavailableError: The disk refuses, or a shard was held by another call for too long;
                what was trimmed before stays so.

        Example:
            >>> stream.seal().rows
            1
            >>> stream.trim().rows
            1
            >>> stream.read(7).num_rows
            1
        """
        # Only who trims needs it, and it takes 100 ms.
        with loading(self._shards.files.meta.name):
            from storage_core.tiering.step import run_all  # noqa: PLC0415
            from storage_core.tiering.trim import trim_shard  # noqa: PLC0415

        step = partial(trim_shard, keep_hot_ms=span_ms("keep_hot", keep_hot))
        return run_all(self._shards.opened().values(), step, progress, builds=False)

    def verify(self, progress: Progress | None = None, *, reads_lake: bool = False) -> VerifyReport:
        """Read all blocks of the open shards and compare what follows from them.

        Args:
            progress: Called every so many blocks with the shard, the address that was reached,
                and the exclusive end.
            reads_lake: Whether to read the parts that only the lake has; else it is asked whether
                it has them.

        Raises:
            UnavailableError: The disk does not read a file now; what was found before is not told.
        """
        report = VerifyReport()
        for shard in self._shards.opened().values():
            limits = VerifyLimits(reads_lake=reads_lake)
            check = partial(verify_shard, shard, progress, limits, fingerprint_of)
            report = report.plus(shard.guard.maintain(check))
        return report

    def accept_loss(self, shard: int, start: int, end: int) -> None:
        """Give up a lost range by name, so that reads pass over it.

        Raises:
            InvalidRequestError: The range is not lost.
        """
        self._shards.shard(shard).accept_loss(start, end)


def _nothing(_shard: Shard, _builder: object) -> None:
    """Leave a shard as it is."""
