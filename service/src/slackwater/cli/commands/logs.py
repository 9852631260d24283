"""Sets up logging for commands that keep running: structlog's loggers and those of libraries, in one format, on stderr."""

import logging
import sys
from typing import Final, Literal, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

LogFormat = Literal["json", "console"]

#: Libraries that log every request or reconnect at INFO; only their warnings are kept.
_QUIET: Final = ("httpx", "httpcore", "kubernetes_asyncio", "uvicorn.access", "uvicorn.error")


def set_up_logs(log_format: LogFormat, *, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Sets up all logging of the process. `json`: one object a line, with `event`, `level`, `timestamp` (UTC). `console`: for
    people. `stream` None: stderr."""
    stream = stream if stream is not None else sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(log_format, stream)],
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _rendering(log_format: LogFormat, stream: TextIO) -> list[structlog.typing.Processor]:
    if log_format == "json":
        # No local variables in tracebacks: one of them may be a bearer token.
        tracebacks = ExceptionDictTransformer(show_locals=False)
        return [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), sort_keys=False, exception_formatter=plain)]
