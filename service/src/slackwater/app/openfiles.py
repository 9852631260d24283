"""How many files and sockets this process may have open: as many as the system lets it, since every connection is one."""

import resource


def raise_limit() -> int:
    """Raises the soft limit to the hard one, as Go programs do by themselves; the limit from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
