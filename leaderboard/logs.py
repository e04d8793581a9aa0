"""How the site and its parts log: lines for people, or JSON that carries what each line is about.

What is bound where the work begins (the request, the claim and its runs) stands in every line that
is logged on the way, whoever logs it. Nothing secret passes in either form.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, ClassVar

import structlog
from structlog.stdlib import ProcessorFormatter

PLAIN, JSON = "plain", "json"
FORMS = (PLAIN, JSON)
TOKEN = re.compile(r"hf_[A-Za-z0-9]{8,}")
CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
BEARER = re.compile(r"(?i)(\bbearer\s+)\S+")
SHORTEST = 6
"""Characters of a secret that is looked for: a shorter one would be found in ordinary words."""

LEVELS: Mapping[str, Mapping[str, str]] = {
    # It would print a line for every question to the Hub.
    "httpx2": {"level": "WARNING"},
    # And these for every request that waits for a thread, or whose reader has gone.
    "waitress.queue": {"level": "ERROR"},
    "waitress": {"level": "WARNING"},
}


def withheld(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without tokens of the Hub, what stands before @ in an address, and these secrets."""
    for secret in secrets:
        if len(secret) >= SHORTEST:
            text = text.replace(secret, "(hidden)")
    return BEARER.sub(r"\1(hidden)", CREDENTIALS.sub("", TOKEN.sub("hf_(hidden)", text)))


def configuration(form: str, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """For logging.config.dictConfig; the same for every process that logs."""
    known = tuple(filter(None, secrets))
    formatter = {"()": Lines, "secrets": known}
    levels = dict(LEVELS)
    if form == JSON:
        structlog.configure(
            processors=[*_SHARED, ProcessorFormatter.wrap_for_formatter],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        )
        formatter = {"()": Json, "secrets": known}
        # Each request is a line by now; Django's own of a wrong address would be a second.
        levels["django.request"] = {"level": "ERROR"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["console"], "level": "INFO"},
        "loggers": levels,
    }


class Lines(logging.Formatter):
    """A line with time, level and logger, as people read it."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        return withheld(super().format(record), self._secrets)


class Json(ProcessorFormatter):
    """An object on one line: `event`, `level`, `logger`, `timestamp`, and what was bound."""

    SHARED: ClassVar[list[Any]] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(secrets)
        super().__init__(
            foreign_pre_chain=self.SHARED,
            processors=[
                ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                self._withhold,
                structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
            ],
        )

    def _withhold(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        return {name: self._clean(value) for name, value in event.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._clean(part) for part in value]
        if isinstance(value, dict):
            return {name: self._clean(part) for name, part in value.items()}
        return (
            value
            if value is None or isinstance(value, int | float)
            else withheld(str(value), self._secrets)
        )


_SHARED = Json.SHARED
