"""Protocol 2 for plugins in Python: one request on standard input, one answer on standard output.

    from ductile_plugin import answer, run

    def poll(request):
        folder = request.config.text("path", required=True)
        return answer(f"looked into {folder}", events=[{"type": "x.seen", "payload": {}}])

    run({"poll": poll})

Raise ConfigError for what only the operator can mend (exit code 78) and Failure for the rest.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from datetime import datetime, timezone

PROTOCOL = 2
EXIT_CONFIG = 78
# What the runtime accepts for one snapshot and for one event's payload, with room for its own keys.
STATE_BYTES_MAX = 1_000_000
PAYLOAD_BYTES_MAX = 1_000_000
# Levels of nesting inside an event's payload, with room for what is around it.
JSON_DEPTH_MAX = 60


class ConfigError(Exception):
    """The configuration is wrong; trying again cannot help."""


class Failure(Exception):
    """The job failed. `retry` says whether trying again may help."""

    def __init__(self, message, retry=True):
        super().__init__(message)
        self.retry = retry


class Fields:
    """Values by name, checked where they are read; an error names the place and the key."""

    def __init__(self, values, place, error):
        self.values = values
        self.place = place
        self.error = error

    def refuse(self, key, reason):
        return self.error(f"{self.place}.{key} {reason}")

    def text(self, key, default=None, required=False):
        value = self.values.get(key)
        if value is None and not required:
            return default
        if not isinstance(value, str) or value.strip() == "" or "\0" in value:
            raise self.refuse(key, "must be a non-empty string")
        return value

    def path(self, key, required=False):
        value = self.text(key, required=required)
        if value is not None and not os.path.isabs(value):
            raise self.refuse(key, "must be an absolute path")
        return value

    def flag(self, key):
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.refuse(key, "must be true or false")
        return value is True

    def whole(self, key, default, low, high):
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(key, f"must be a whole number from {low} to {high}")
        return value

    def choice(self, key, choices):
        value = self.values.get(key)
        if value is None:
            return choices[0]
        if value not in choices:
            raise self.refuse(key, f"must be one of {', '.join(choices)}")
        return value

    def mapping(self, key):
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.refuse(key, "must be a mapping")
        return value


class Request:
    def __init__(self, raw):
        self.command = raw.get("command")
        self.job_id = raw.get("job_id")
        self.attempt = raw.get("attempt", 1)
        self.idempotency_key = raw.get("idempotency_key") or raw.get("job_id") or ""
        self.event = _object(raw, "event")
        self.state = _object(raw, "state")
        self.config = Fields(_object(raw, "config"), "config", ConfigError)
        payload = self.event.get("payload") if self.command == "handle" else None
        payload = payload if isinstance(payload, dict) else _object(raw, "payload")
        self.payload = Fields(payload, "payload", lambda message: Failure(message, retry=False))
        self._deadline = _monotonic_deadline(raw.get("deadline_at"))

    def seconds_left(self, at_most, margin=0.5):
        """Time for the work itself: until the deadline, less what answering takes."""
        if self._deadline is None:
            return at_most
        return max(0.05, min(at_most, self._deadline - time.monotonic() - margin))


def answer(result, events=None, state=None, logs=None):
    """A successful answer. `state` is a whole snapshot; leave it out when nothing changed."""
    reply = {"status": "ok", "result": result}
    if events:
        reply["events"] = events
    if state is not None:
        reply["state_updates"] = state
    if logs:
        reply["logs"] = [{"level": level, "message": message} for level, message in logs]
    return reply


def run(commands):
    """Reads the request, runs its command and ends the process with the answer."""
    raw_text = sys.stdin.buffer.read()
    try:
        reply, code = _reply_to(raw_text, commands)
    except ConfigError as error:
        reply, code = _failed(str(error), retry=False), EXIT_CONFIG
    except Failure as error:
        reply, code = _failed(str(error), retry=error.retry), 0
    except Exception as error:  # the runtime must get an answer whatever happened
        import traceback

        traceback.print_exc()
        reply, code = _failed(f"{type(error).__name__}: {error}", retry=True), 1
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
    sys.exit(code)


def encoded_size(value):
    """Bytes of a value as the JSON that the runtime will keep."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def clip(text, bytes_max):
    """As much of a text as fits into so many bytes of JSON, and whether something was cut."""
    text = text.replace("\0", "\ufffd")
    clipped = text[:bytes_max]
    while (size := encoded_size(clipped) - len('""')) > bytes_max:
        clipped = clipped[: len(clipped) * bytes_max // size]
    return clipped, len(clipped) < len(text)


def parse_json(text):
    """Strict JSON: what Python would also accept (NaN, overflowing numbers) raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_storable(value, depth=JSON_DEPTH_MAX):
    """Whether the runtime keeps a value: its ledger refuses U+0000, half characters and deep nesting."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, (dict, list)) and depth == 0:
        return False
    if isinstance(value, dict):
        return "__proto__" not in value and all(
            is_storable(key) and is_storable(inner, depth - 1) for key, inner in value.items())
    return not isinstance(value, list) or all(is_storable(inner, depth - 1) for inner in value)


def parse_time(text):
    """Seconds since the epoch of an ISO 8601 timestamp, or None when it is not one."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def format_time(seconds):
    """A timestamp as the runtime writes them; what lies outside the calendar becomes its border."""
    within = min(max(seconds, -62_135_596_800), 253_402_300_799)
    moment = datetime.fromtimestamp(within, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _reply_to(raw_text, commands):
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
    command = commands.get(request.command) if isinstance(request.command, str) else None
    if command is None:
        known = ", ".join(sorted(commands))
        raise Failure(f"unknown command {request.command!r}; there are {known}", retry=False)
    return command(request), 0


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


def _failed(message, retry):
    safe = message.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return {"status": "error", "error": safe, "retry": retry}


def _monotonic_deadline(text):
    at = parse_time(text)
    return None if at is None else time.monotonic() + (at - time.time())
