"""Protocol 2 for plugins in Python: one request on standard input, one answer on standard output.

    from ductile_plugin import answer, run

    def poll(request):
        folder = request.config.text("path", required=True)
        return answer(f"looked into {folder}", events=[{"type": "x.seen", "payload": {}}])

    run({"poll": poll})

Raise ConfigError for what only the operator can mend (exit code 78) and Failure for the rest.
One file without dependencies, for Python 3.9 and later: copy it beside your plugin.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from datetime import datetime, timezone

TYPE_CHECKING = False  # what checkers take for true; a process that starts for each job spares the import
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, NoReturn, Optional, Sequence

PROTOCOL = 2
EXIT_CONFIG = 78
# Maximum size of a snapshot and of an event's payload, with space for Ductile's own keys.
STATE_BYTES_MAX = 1_000_000
PAYLOAD_BYTES_MAX = 1_000_000
# Nesting levels inside an event's payload, with space for the levels around it.
JSON_DEPTH_MAX = 60


class ConfigError(Exception):
    """Configuration error; a retry can't help."""


class Failure(Exception):
    """Failure of the job. `retry` tells whether a retry may help, and the seconds until the earliest one.

    `exit_code` is that of a program that the plugin ran; lists of attempts show it.
    """

    def __init__(self, message: str, retry: bool = True, retry_after_seconds: Optional[float] = None,
                 exit_code: Optional[int] = None):
        super().__init__(message)
        self.retry = retry
        self.retry_after_seconds = retry_after_seconds
        self.exit_code = exit_code


class Fields:
    """Values by name, checked when they are read; an error names the location and the key."""

    def __init__(self, values: dict, place: str, error: Callable[[str], Exception]):
        self.values = values
        self.place = place
        self.error = error

    def refuse(self, key: str, reason: str) -> Exception:
        return self.error(f"{self.place}.{key} {reason}")

    def text(self, key: str, default: Optional[str] = None, required: bool = False) -> Optional[str]:
        value = self.values.get(key)
        if value is None and not required:
            return default
        if not isinstance(value, str) or value.strip() == "" or "\0" in value:
            raise self.refuse(key, "must be a non-empty string")
        return value

    def path(self, key: str, required: bool = False) -> Optional[str]:
        value = self.text(key, required=required)
        if value is not None and not os.path.isabs(value):
            raise self.refuse(key, "must be an absolute path")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.refuse(key, "must be true or false")
        return value is True

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(key, f"must be a whole number from {low} to {high}")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.values.get(key)
        if value is None:
            return choices[0]
        if value not in choices:
            raise self.refuse(key, f"must be one of {', '.join(choices)}")
        return value

    def texts(self, key: str) -> list[str]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self.refuse(key, "must be a list of non-empty strings")
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.refuse(key, "must be a mapping")
        return value


class Logger:
    """What is said here is kept with the attempt, whether it succeeds or fails."""

    def __init__(self):
        self.entries: list[tuple[str, str]] = []

    def debug(self, message: str) -> None:
        self.entries.append(("debug", message))

    def info(self, message: str) -> None:
        self.entries.append(("info", message))

    def warn(self, message: str) -> None:
        self.entries.append(("warn", message))

    def error(self, message: str) -> None:
        self.entries.append(("error", message))


class Request:
    """What is asked. `state` and `context` are plain dicts; `config` and `payload` check what they give."""

    def __init__(self, raw: dict):
        self.command = raw.get("command")
        self.job_id = raw.get("job_id")
        self.attempt = raw.get("attempt", 1)
        self.idempotency_key = raw.get("idempotency_key") or raw.get("job_id") or ""
        self.instance = raw.get("instance") or ""
        # Set when the job is a step of a pipeline; else empty.
        self.step_id = raw.get("step_id") or ""
        self.event = _object(raw, "event")
        self.state = _object(raw, "state")
        self.context = _object(raw, "context")
        # url, mcp_url and token, where the operator configured api_access; else empty.
        self.api = _object(raw, "api")
        self.log = Logger()
        self.config = Fields(_object(raw, "config"), "config", ConfigError)
        payload = self.event.get("payload") if self.command == "handle" else None
        payload = payload if isinstance(payload, dict) else _object(raw, "payload")
        self.payload = Fields(payload, "payload", lambda message: Failure(message, retry=False))
        self._deadline = _monotonic_deadline(raw.get("deadline_at"))

    def key_for(self, effect: str) -> str:
        """A key for one of several effects of this job: the same for every attempt, 64 characters."""
        import hashlib  # most jobs do without

        return hashlib.sha256(f"{self.idempotency_key}\n{effect}".encode()).hexdigest()

    def seconds_left(self, at_most: float, margin: float = 0.5) -> float:
        """Time for the work itself: until the deadline, less what answering takes."""
        if self._deadline is None:
            return at_most
        return max(0.05, min(at_most, self._deadline - time.monotonic() - margin))


def event(type: str, payload: dict, dedupe_key: Optional[str] = None) -> dict:
    """Creates an event for routes and pipelines. With a dedupe key it causes the same work only once."""
    made = {"type": type, "payload": payload}
    return made if dedupe_key is None else {**made, "dedupe_key": dedupe_key}


def answer(
    result: str,
    events: Optional[Sequence[dict]] = None,
    state: Optional[dict] = None,
    logs: Optional[Iterable[tuple[str, str]]] = None,
) -> dict:
    """A successful answer. `state` is a whole snapshot; leave it out when nothing changed."""
    reply: dict[str, Any] = {"status": "ok", "result": result}
    if events:
        reply["events"] = events
    if state is not None:
        reply["state_updates"] = state
    if logs:
        reply["logs"] = _entries(logs)
    return reply


def find_unseen(items: Iterable, id_of: Callable[[Any], str], before: Any, keep: int = 1000) -> tuple[list, list[str]]:
    """Of what a poll found, what no earlier one did; and the ids to keep in the state for the next.

    Only the latest ids are kept, so that the state does not grow for ever.
    """
    seen = dict.fromkeys(id for id in before if isinstance(id, str)) if isinstance(before, list) else {}
    fresh, count = [], 0
    for item in items:
        count += 1
        id = id_of(item)
        if id not in seen:
            fresh.append(item)
        # The latest ids are at the end; an id that is still present moves there.
        seen.pop(id, None)
        seen[id] = None
    return fresh, list(seen)[-max(keep, count):]


def run(commands: dict[str, Callable[[Request], dict]]) -> NoReturn:
    """Reads the request, runs its command and ends the process with the answer.

    A process that was started ahead of its request waits in here, so do nothing before it that
    depends on the moment.
    """
    # Standard output is only for the response; other output goes to standard error.
    out, sys.stdout = sys.stdout, sys.stderr
    log = Logger()
    raw_text = sys.stdin.buffer.read()
    try:
        text, code = _reply_to(raw_text, commands, log), 0
    except ConfigError as error:
        text, code = _encode(_failed(str(error), retry=False), log), EXIT_CONFIG
    except Failure as error:
        text, code = _encode(_failure(error), log), 0
    except Exception as error:  # the runtime must get an answer whatever happened
        import traceback

        traceback.print_exc()
        text, code = _encode(_failed(f"{type(error).__name__}: {error}", retry=True), log), 1
    out.write(text + "\n")
    out.flush()
    sys.exit(code)


def encoded_size(value: Any) -> int:
    """Returns the size of a value as stored JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def clip(text: str, bytes_max: int) -> tuple[str, bool]:
    """As much of a text as fits into so many bytes of JSON, and whether something was cut."""
    text = text.replace("\0", "\ufffd")
    clipped = text[:bytes_max]
    while (size := encoded_size(clipped) - len('""')) > bytes_max:
        clipped = clipped[: len(clipped) * bytes_max // size]
    return clipped, len(clipped) < len(text)


def parse_json(text: "str | bytes") -> Any:
    """Strict JSON: what Python would also accept (NaN, overflowing numbers) raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_storable(value: Any, depth: int = JSON_DEPTH_MAX) -> bool:
    """Whether the runtime keeps a value: its ledger refuses U+0000, half characters and deep nesting."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, (dict, list)) and depth == 0:
        return False
    if isinstance(value, dict):
        return "__proto__" not in value and all(
            is_storable(key) and is_storable(inner, depth - 1) for key, inner in value.items())
    return not isinstance(value, list) or all(is_storable(inner, depth - 1) for inner in value)


def parse_time(text: Any) -> Optional[float]:
    """Seconds since the epoch of an ISO 8601 timestamp, or None when it is not one."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def format_time(seconds: float) -> str:
    """A timestamp as the runtime writes them; what lies outside the calendar becomes its border."""
    within = min(max(seconds, -62_135_596_800), 253_402_300_799)
    moment = datetime.fromtimestamp(within, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _reply_to(raw_text, commands, log):
    try:
        raw = parse_json(raw_text)
    except ValueError:
        raw = None
    if not isinstance(raw, dict):
        raise Failure("the request on standard input is not one JSON object", retry=False)
    if raw.get("protocol") != PROTOCOL:
        print(f"this plugin speaks protocol {PROTOCOL}", file=sys.stderr)
        raise ConfigError(f"this plugin speaks protocol {PROTOCOL}, not {raw.get('protocol')!r}")
    request = Request(raw)
    request.log = log
    command = commands.get(request.command) if isinstance(request.command, str) else None
    if command is None:
        known = ", ".join(sorted(commands))
        raise Failure(f"unknown command {request.command!r}; there are {known}", retry=False)
    reply = command(request)
    if not isinstance(reply, dict):
        raise TypeError(f"{request.command} must return answer(…), not {type(reply).__name__}")
    try:
        return _encode(reply, log)
    except (TypeError, ValueError) as error:
        raise TypeError(f"what {request.command} returned is no JSON: {error}") from error


def _encode(reply, log):
    if log.entries:
        reply = {**reply, "logs": _entries(log.entries) + reply.get("logs", [])}
    return json.dumps(reply, allow_nan=False)


def _entries(logs):
    return [{"level": level, "message": str(message)} for level, message in logs]


def _object(raw, key):
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Failure(f"{key} of the request must be an object", retry=False)
    return value


def _refuse_number(text):
    raise ValueError(f"{text} is not a number of JSON")


def _finite(text):
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _failed(message, retry, retry_after_seconds=None):
    safe = message.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    when = {} if retry_after_seconds is None else {"retry_after_seconds": retry_after_seconds}
    return {"status": "error", "error": safe, "retry": retry, **when}


def _failure(error):
    code = {} if error.exit_code is None else {"exit_code": error.exit_code}
    return {**_failed(str(error), error.retry, error.retry_after_seconds), **code}


def _monotonic_deadline(text):
    at = parse_time(text)
    return None if at is None else time.monotonic() + (at - time.time())
