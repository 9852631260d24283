"""Amounts of money as integers: millionths (micros) of a currency, read from decimal text and written as such, exactly."""

import re
from typing import Final

MICROS: Final = 1_000_000
#: The largest price that can be written, in micros: a million an hour for one node. So the sum over a million nodes fits an
#: int64.
LARGEST_PRICE: Final = 10**6 * MICROS
WANTED_PRICE: Final = f"a decimal number from 0 to {LARGEST_PRICE // MICROS} such as 0.096"
_DECIMAL: Final = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,30}))?")


def rounded(amount: int, divisor: int) -> int:
    """The amount divided by the divisor, rounded to a whole number, halves up."""
    return (2 * amount + divisor) // (2 * divisor)


def micros_of(text: str) -> int:
    """Reads a decimal number such as 0.096, without a loss; digits below 10^-6 are rounded, halves up. Raises ValueError, whose
    text says what is wanted."""
    found = _DECIMAL.fullmatch(text)
    if found is not None:
        whole, fraction = found[1], found[2] or ""
        micros = rounded(int(whole + fraction) * MICROS, 10 ** len(fraction))
        if micros <= LARGEST_PRICE:
            return micros
    raise ValueError(WANTED_PRICE)


def decimal_text(micros: int) -> str:
    """The decimal number for >= 0 micros, with at least two digits behind the point."""
    whole, fraction = divmod(micros, MICROS)
    digits = f"{fraction:06}"
    return f"{whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def signed_text(micros: int) -> str:
    """As `decimal_text`, also for less than 0 micros."""
    return "-" * (micros < 0) + decimal_text(abs(micros))
