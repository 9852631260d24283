"""What else changes a pod's account: one function for each row of reference/neon-scheduler.md section 2.5."""

from dataclasses import replace

from slackwater.model.ledger.account import Account
from slackwater.model.resources import NOTHING, Amounts, amounts_of


def migration_started(account: Account) -> Account:
    """The pod will leave: what is only kept for uncertainty goes, and Reserved and CapacityPressure count as accounted for.

    The formula of the seed: release 0.36.1 zeroes CapacityPressure first and so accounts for Reserved alone.
    """
    reserved = account.reserved.minus(account.buffer)
    return replace(account, reserved=reserved, buffer=NOTHING, accounted_for=reserved.plus(account.capacity_pressure))


def migration_found(account: Account) -> Account:
    """The pod was leaving already when we came. Its agent has not been heard: it may be using its Buffer, which so stays."""
    certain = account.reserved.minus(account.buffer)
    return replace(account, accounted_for=certain.plus(account.capacity_pressure))


def migration_ended(account: Account) -> Account:
    """The migration is over and the pod still there: it relieves nothing any more."""
    return replace(account, accounted_for=NOTHING)


def scaling_disabled(account: Account) -> Account:
    """Nobody grows the pod any more: what was kept or wanted for growth goes. What was permitted stays until use changes."""
    return replace(account, reserved=account.reserved.minus(account.buffer), buffer=NOTHING, capacity_pressure=NOTHING)


def bounds_changed(account: Account, *, minimum: Amounts, maximum: Amounts) -> Account:
    """New bounds. Where Max differs, the pod may grow to it unheard again: Buffer grows with it, until its agent asks next.

    An unchanged Max moves nothing but Min, resource by resource.
    """
    reserved, buffer = list(account.reserved), list(account.buffer)
    for r, new in enumerate(maximum):
        if new != account.max[r]:
            using = reserved[r] - buffer[r]
            reserved[r] = max(new, using)
            buffer[r] = reserved[r] - using
    return replace(account, reserved=amounts_of(reserved), buffer=amounts_of(buffer), min=minimum, max=maximum)


def use_changed(account: Account, using: Amounts) -> Account:
    """The use of a pod that does not scale changed: Reserved follows it, and nothing is uncertain."""
    return replace(account, reserved=using, buffer=NOTHING)
