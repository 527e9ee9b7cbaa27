"""A letter as one of Flower's records: an array of bytes that is never read as anything else, and a sentence."""

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from idiolect.errors import UserMistake

_LETTER, _WHY, _RAW = "letter", "why", "bytes"


def as_records(letter: bytes, why: str = "") -> RecordDict:
    """A letter, or a sentence on why there is none. Flower sends an array in chunks, so it may be large."""
    found = RecordDict({_WHY: ConfigRecord({_WHY: why})})
    if letter:
        array = Array(dtype="uint8", shape=(len(letter),), stype=_RAW, data=letter)
        found[_LETTER] = ArrayRecord({_LETTER: array})
    return found


def letter_in(records: RecordDict) -> bytes:
    """The letter that records are, or a `UserMistake` that says why there is none."""
    arrays, config = records.get(_LETTER), records.get(_WHY)
    why = config.get(_WHY) if isinstance(config, ConfigRecord) else None
    if why:
        raise UserMistake(str(why)[:300])
    array = arrays.get(_LETTER) if isinstance(arrays, ArrayRecord) else None
    if array is None or array.stype != _RAW or not isinstance(array.data, bytes):
        raise UserMistake("the message holds no letter")
    return array.data
