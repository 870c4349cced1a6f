"""The text that Prometheus reads, version 0.0.4.

    # HELP <name> <what it is>
    # TYPE <name> counter | gauge | histogram
    <name>{<label>="<value>",...} <number>

In a label's value a backslash, a quote and a line's end are escaped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from connectors.ingest.status.histograms import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: what stands behind the family's name, the labels, the number."""

    labels: Labels
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """The samples of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


def single(
    name: str, kind: Literal["counter", "gauge"], help_: str, value: float, **labels: str
) -> Family:
    """Return a family of one sample."""
    return Family(name, kind, help_, (Sample(labels, value),))


def histogram(name: str, help_: str, counted: Histogram) -> Family:
    """Return a histogram: counts up to each bound, each with those below it."""
    samples, total = [], 0
    for bound, count in zip([*map(_number, counted.bounds), "+Inf"], counted.counts, strict=True):
        total += count
        samples.append(Sample({"le": bound}, total, "_bucket"))
    ends = (Sample({}, counted.sum, "_sum"), Sample({}, total, "_count"))
    return Family(name, "histogram", help_, (*samples, *ends))


def encode_families(families: Iterable[Family]) -> bytes:
    """Return the text."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [_line(family.name, sample) for sample in family.samples]
    return "".join(f"{line}\n" for line in lines).encode()


def _line(name: str, sample: Sample) -> str:
    inner = ",".join(
        f'{label}="{value.translate(_ESCAPES)}"' for label, value in sample.labels.items()
    )
    labels = f"{{{inner}}}" if inner else ""
    return f"{name}{sample.suffix}{labels} {_number(sample.value)}"


def _number(value: float) -> str:
    """Return a number as Prometheus reads it; those of counters with all their digits."""
    return str(value) if isinstance(value, int) else repr(float(value))
