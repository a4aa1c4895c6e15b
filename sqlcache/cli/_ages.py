"""Ages as kubectl writes them: "45s", "3m20s", "5d4h".

Source: apimachinery util/duration; printers/internalversion translateTimestampSince.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

Clock: TypeAlias = Callable[[], datetime]
UNKNOWN = "<unknown>"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_YEAR_DAYS = 365


def utc_now() -> datetime:
    """Return the time of the system's clock."""
    return datetime.now(UTC)


def timestamp(value: Any) -> datetime | None:
    """Return the time that an RFC 3339 text stands for, None if it is none."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def age(value: Any, now: datetime) -> str:
    """Return how long a timestamp is ago, "<unknown>" if it is none."""
    time = timestamp(value)
    return UNKNOWN if time is None else human_duration(int((now - time).total_seconds()))


def human_duration(seconds: int) -> str:
    """Return a duration in two or three significant figures.

    Args:
        seconds: less than -1 is "<invalid>"; -1 is taken as a difference between clocks, 0.
    """
    if seconds < -1:
        return "<invalid>"
    minutes, hours, days = seconds // _MINUTE_S, seconds // _HOUR_S, seconds // _DAY_S
    if seconds < 2 * _MINUTE_S:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * _YEAR_DAYS:
        return f"{days}d"
    if days < 8 * _YEAR_DAYS:
        return _two(days // _YEAR_DAYS, "y", days % _YEAR_DAYS, "d")
    return f"{days // _YEAR_DAYS}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
