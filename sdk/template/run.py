#!/usr/bin/env python3
import hashlib

from ductile_plugin import Failure, answer, event, run


def poll(request):
    """Runs on a schedule. What it answers as state is its state at the next poll."""
    path = path_of(request)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    seen = hashlib.sha256(content).hexdigest()
    request.log.info(f"read {len(content)} bytes")
    if request.state.get("seen") == seen:
        return answer(f"{path} is as it was")
    return answer(f"{path} changed", events=[event("your-plugin.changed", {"path": path})], state={"seen": seen})


def handle(request):
    """Runs for an event, a call or a step. Send request.idempotency_key along with whatever you write."""
    name = request.payload.text("name", required=True)
    text = f"{greeting_of(request)}, {name}"
    return answer(text, events=[event("your-plugin.greeted", {"text": text})])


def health(request):
    return answer(f"greets with {greeting_of(request)}, looks at {path_of(request)}")


def greeting_of(request):
    return request.config.text("greeting", default="Hello")


def path_of(request):
    """Relative to the plugin's directory, where it runs."""
    return request.config.text("path", default="README.md")


if __name__ == "__main__":
    run({"poll": poll, "handle": handle, "health": health})
