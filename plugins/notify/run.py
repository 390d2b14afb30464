#!/usr/bin/env python3
"""Tells somebody: a line of JSON in a file, a POST to an address, or both."""

import os
import sys
import time

sys.dont_write_bytecode = True  # the plugin's folders stay as they were checked
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "../lib"), os.path.join(here, "../../sdk/python")]

import json
import re
import stat

from ductile_plugin import Failure, answer, clip, encoded_size, format_time, run

MESSAGE_BYTES_MAX = 65_536
# Bytes that a repeated attempt searches for the line of an earlier one.
TAIL_BYTES = 262_144
# Field names that a warning lists at most.
KEYS_SHOWN = 20
FIELD = re.compile(r"\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}")


def handle(request):
    target = Target(request)
    logs = []
    message = shorten(compose(request, target.template, logs), logs)
    sent = {"message": message}
    if target.file is not None:
        if not append(target.file, message, request):
            logs.append(("info", "the line was already there from an earlier attempt"))
        sent["file"] = target.file
    if target.url is not None:
        sent["status"] = post(target, message, request)
    places = " and ".join(place for place in (target.file, target.host) if place)
    return answer(f"notified {places}", [{"type": "notify.sent", "payload": sent}], logs=logs)


def health(request):
    target = Target(request)
    if target.file is not None:
        subject = target.file if os.path.lexists(target.file) else os.path.dirname(target.file)
        if not os.access(subject, os.W_OK):
            raise Failure(f"config.file {target.file} cannot be written")
    return answer("configured")


class Target:
    def __init__(self, request):
        config = request.config
        self.file = config.path("file")
        self.template = config.text("template")
        self.message_field = config.text("message_field", default="text")
        self.fields = config.texts("fields")
        if self.message_field in self.fields:
            raise config.refuse("fields", "must not name config.message_field")
        self.timeout = config.whole("timeout_ms", 15_000, 1, 600_000) / 1000
        self.allow_private = config.flag("allow_private")
        self.url = self.host = self.headers = None
        if config.text("url") is not None:
            # Loaded only here: HTTP takes longer to load than a line takes to write.
            from http_request import read_headers, read_url

            self.url = read_url(config, "url")
            self.host = self.url.hostname
            self.headers = read_headers(config, "headers", reserved=("content-type", "idempotency-key"))
        if self.file is None and self.url is None:
            raise config.refuse("file", "or config.url must be set")


def shorten(text, logs):
    """As much as an event can hold; whoever reads it is told when that is not all."""
    message, was_cut = clip(text, MESSAGE_BYTES_MAX)
    if not was_cut:
        return message
    logs.append(("warn", f"the message was cut to {MESSAGE_BYTES_MAX} bytes; it had {len(text)} characters"))
    mark = f"… (cut, {len(text)} characters)"
    return clip(text, MESSAGE_BYTES_MAX - encoded_size(mark))[0] + mark


def compose(request, template, logs):
    payload = request.payload.values
    if template is None:
        # A step defines its own message, whatever event caused it.
        if request.event.get("type") == "agent.result" and not request.step_id:
            return compose_result(payload)
        plain = payload.get("message", payload.get("text"))
        return plain if isinstance(plain, str) and plain else as_text(payload)

    def value_of(match):
        value = look_up(payload, match[1].split("."))
        if value is None:
            logs.append(("warn", missing_field(match[1], payload)))
            return ""
        return as_text(value)

    # One pass: what a value contains is never looked at as a template again.
    message = FIELD.sub(value_of, template)
    if logs and not message.strip():
        raise Failure(f"nothing was sent: {logs[-1][1]}", retry=False)
    return message


def missing_field(path, payload):
    keys = ", ".join(sorted(payload)[:KEYS_SHOWN]) or "no fields"
    return f"config.template: the payload has no {path}, so it is empty in the message; the payload has {keys}"


def compose_result(payload):
    """Which task it was, and its answer; one that said nothing has at least ended well."""
    heading = payload.get("title") or payload.get("task_folder")
    body = payload.get("text") or payload.get("status")
    return "\n\n".join(as_text(part) for part in (heading, body) if part)


def look_up(value, keys):
    for key in keys:
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def append(path, message, request):
    """Adds one line in one write, on disk when this returns; false when an attempt before did."""
    key = json.dumps(request.idempotency_key)
    line = json.dumps({
        "at": format_time(time.time()),
        "message": message,
        "event_type": request.event.get("type") or None,
        "idempotency_key": request.idempotency_key,
    }) + "\n"
    file = open_file(path)
    try:
        if request.attempt != 1 and f'"idempotency_key": {key}}}' in read_tail(file):
            return False
        raw = line.encode()
        if os.write(file, raw) != len(raw):
            raise Failure(f"config.file {path}: the line was cut short")
        os.fsync(file)
        return True
    except OSError as error:
        raise Failure(f"config.file {path}: {error.strerror}") from error
    finally:
        os.close(file)


def open_file(path):
    # Non-blocking, because a named pipe would wait for a reader; no links, because another user
    # may have created one.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o600)
    except OSError as error:
        raise Failure(f"config.file {path} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Failure(f"config.file {path} is not a regular file", retry=False)
    return file


def read_tail(file):
    size = os.fstat(file).st_size
    return os.pread(file, TAIL_BYTES, max(0, size - TAIL_BYTES)).decode("utf-8", "replace")


def post(target, message, request):
    from http_request import send

    headers = {**target.headers, "Content-Type": "application/json"}
    key = str(request.idempotency_key)
    if re.fullmatch(r"[\x21-\x7e]{1,255}", key):
        headers["Idempotency-Key"] = key
    payload = request.payload.values
    beside = {name: payload[name] for name in target.fields if payload.get(name) is not None}
    body = json.dumps({target.message_field: message, **beside}).encode()
    timeout = request.seconds_left(at_most=target.timeout)
    response = send("POST", target.url, headers, body, timeout, bytes_max=500, allow_private=target.allow_private)
    if response.is_success:
        return response.status
    if 300 <= response.status < 400:
        raise Failure(f"config.url ({target.host}) answered with a redirect; none is followed", retry=False)
    words = response.body.decode("utf-8", "replace").strip().replace("\n", " ")
    raise response.failure(f"config.url ({target.host}) answered {response.status}: {words[:300]}")


run({"handle": handle, "health": health})
