"""What becomes of a fault of one partition or topic, by its kind: `on_fault` of the settings.

    on_fault = "stop"                       # any of them ends the worker
    on_fault = { foreign = "stop" }         # these do; the others are set aside

The kinds are those of the errors, so that each kind has one exit code.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

FaultKind = Literal["refused", "unavailable", "foreign", "overtaken", "damage", "write_failed"]
OnFault = Literal["set-aside", "stop"]


class FaultSettings(BaseModel):
    """What becomes of each kind of fault.

    Attributes:
        refused: Settings, names or rights do not let a topic be taken.
        unavailable: A shard is held by another process, or cannot be opened for the moment, for
            longer than `lock_wait_s`.
        foreign: The topic was made anew, its log was cut, or its data lies elsewhere.
        overtaken: Kafka's retention has passed records that were not stored.
        damage: A shard cannot be read, or what Kafka holds cannot be.
        write_failed: A shard's disk goes on refusing its writes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    refused: OnFault = "set-aside"
    unavailable: OnFault = "set-aside"
    foreign: OnFault = "set-aside"
    overtaken: OnFault = "set-aside"
    damage: OnFault = "set-aside"
    write_failed: OnFault = "set-aside"

    @model_validator(mode="before")
    @classmethod
    def _of_all(cls, given: object) -> object:
        if isinstance(given, str):
            return dict.fromkeys(cls.model_fields, given)
        return given

    def stops(self, kind: FaultKind) -> bool:
        """Tell whether a fault of this kind ends the worker."""
        found: OnFault = getattr(self, kind)
        return found == "stop"
