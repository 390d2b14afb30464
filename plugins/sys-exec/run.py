#!/usr/bin/env python3
"""Runs a program from the operator's list. A payload picks a name and fills placeholders, no more."""

import os
import sys
import time

sys.dont_write_bytecode = True  # the plugin's folders stay as they were checked
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sdk/python"))

import re
import selectors
import shutil
import signal
import subprocess

from command_guard import Guarded, find_fault
from ductile_plugin import ConfigError, Failure, answer, clip, run

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
OUTPUT_BYTES_MAX = 400_000
KILL_GRACE_S = 1.0
# Time to wait for output that a child of the program keeps open.
DRAIN_S = 0.2


def execute(request):
    settings = Settings(request.config)
    name = choose(request.payload, settings)
    argv = fill(settings.commands[name], request.payload)
    # The kill grace must fit between the plugin's deadline and the service's.
    timeout = request.seconds_left(at_most=settings.timeout, margin=KILL_GRACE_S + 1)
    outcome = run_program(name, argv, settings.cwd, timeout, settings.output_max)
    if outcome.pop("timed_out"):
        raise Failure(f"{name} was stopped after {timeout:.1f} s{last_words(outcome)}")
    code, ended_by = outcome["exit_code"], outcome["signal"]
    ending = f"exited with {code}" if ended_by is None else f"was ended by {ended_by}"
    if settings.ok_codes is not None and code not in settings.ok_codes:
        raise Failure(f"{name} {ending}{last_words(outcome)}", exit_code=code)
    event = {"type": "sys-exec.finished", "payload": {"command": name, **outcome}}
    return answer(f"{name} {ending}", [event])


def health(request):
    commands = Settings(request.config).commands
    for name, argv in commands.items():
        if shutil.which(argv[0]) is None:
            raise ConfigError(f"config.commands.{name}: there is no program {argv[0]!r}")
    return answer(f"{len(commands)} commands can be run")


class Settings:
    def __init__(self, config):
        self.commands = read_commands(config)
        self.default_command = config.text("default_command")
        if self.default_command is not None and self.default_command not in self.commands:
            raise config.refuse("default_command", "must be one of config.commands")
        self.ok_codes = read_ok_codes(config)
        self.cwd = config.path("cwd")
        if self.cwd is not None and not os.path.isdir(self.cwd):
            raise config.refuse("cwd", "must be a folder")
        self.timeout = config.whole("timeout_ms", 3_600_000, 1, 86_400_000) / 1000
        self.output_max = config.whole("max_output_bytes", 65_536, 0, OUTPUT_BYTES_MAX)


def read_commands(config):
    listed = config.mapping("commands")
    if not listed:
        raise config.refuse("commands", "must list at least one command")
    allow_shell = config.flag("allow_shell")
    return {name: check_command(f"config.commands.{name}", argv, allow_shell)
            for name, argv in listed.items()}


def check_command(place, argv, allow_shell):
    if isinstance(argv, str):
        if not allow_shell:
            raise ConfigError(f"{place} must be a list of strings; text for a shell needs config.allow_shell")
        # Braces mean something to a shell, so shell text has no placeholders at all.
        return ["/bin/sh", "-c", Verbatim(argv)]
    is_list = isinstance(argv, list) and all(isinstance(part, str) and "\0" not in part for part in argv)
    if not is_list or not argv or not argv[0].strip():
        raise ConfigError(f"{place} must be a list of strings that begins with a program")
    if PLACEHOLDER.search(argv[0]):
        raise ConfigError(f"{place}: the program itself cannot be a placeholder")
    guarded = Guarded(argv)
    if guarded.starts_shell and not allow_shell:
        raise ConfigError(f"{place} starts a shell, which needs config.allow_shell")
    fault = find_fault(argv, guarded)
    if fault is not None:
        raise ConfigError(f"{place}: {fault}")
    return [Verbatim(part) if at in guarded.fixed else part for at, part in enumerate(argv)]


class Verbatim(str):
    """A part of a command that is never filled in."""


def choose(payload, settings):
    name = payload.text("command", settings.default_command)
    if name not in settings.commands:
        raise payload.refuse("command", f"must name one of {', '.join(sorted(settings.commands))}")
    return name


def fill(argv, payload):
    """Values come from payload.args, or from the payload itself when it has no args."""
    given = payload.mapping("args") if "args" in payload.values else None
    values = payload.values if given is None else given
    place = "payload" if given is None else "payload.args"
    used = set()

    def value_of(match):
        used.add(match[1])
        return check_value(f"{place}.{match[1]}", values.get(match[1]))

    filled = [fill_part(part, value_of, place) for part in argv]
    unused = sorted(set(given or {}) - used)
    if unused:
        raise Failure(f"payload.args.{unused[0]} has no placeholder in this command", retry=False)
    return filled


def fill_part(part, value_of, place):
    if isinstance(part, Verbatim):
        return part
    filled = PLACEHOLDER.sub(value_of, part)
    if filled.startswith("-") and not part.startswith("-"):
        raise Failure(f"{place} would turn {part!r} into an option: it begins with '-'", retry=False)
    return filled


def check_value(place, value):
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise Failure(f"{place} must be a string or a number", retry=False)
    text = str(value)
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text):
        raise Failure(f"{place} contains a character that no argument can have", retry=False)
    return text


def read_ok_codes(config):
    """The exit codes that count as success; None means every one."""
    codes = config.values.get("ok_exit_codes")
    if codes is None:
        return [0]
    if codes == "any":
        return None
    if not isinstance(codes, list) or not all(type(code) is int and 0 <= code <= 255 for code in codes):
        raise config.refuse("ok_exit_codes", "must be a list of exit codes, or 'any'")
    return codes


def run_program(name, argv, cwd, timeout, limit):
    """The program stays in our process group, so that whoever stops us stops it as well."""
    started = time.monotonic()
    try:
        process = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except (FileNotFoundError, PermissionError) as error:
        raise ConfigError(f"config.commands.{name}: cannot run {argv[0]!r}: {error.strerror}") from error
    except OSError as error:
        raise Failure(f"cannot run {argv[0]!r}: {error.strerror}") from error
    kept, timed_out = collect(process, started + timeout, limit)
    code = process.returncode
    stdout, stdout_cut = readable(kept[process.stdout], limit)
    stderr, stderr_cut = readable(kept[process.stderr], limit)
    return {
        "exit_code": code if code >= 0 else None,
        "signal": None if code >= 0 else signal_name(-code),
        "stdout": stdout,
        "stderr": stderr,
        "stdout_truncated": stdout_cut,
        "stderr_truncated": stderr_cut,
        "duration_ms": round((time.monotonic() - started) * 1000),
        "timed_out": timed_out,
    }


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time ones have no names
        return f"SIG{number}"


def collect(process, deadline, limit):
    """Reads both outputs to their end, keeping one byte more than the limit of each."""
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    timed_out = False
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            if process.poll() is not None:
                deadline = min(deadline, time.monotonic() + DRAIN_S)
            left = deadline - time.monotonic()
            if left <= 0:
                break
            for ready, _ in selector.select(min(left, 0.05)):
                chunk = os.read(ready.fd, 65_536)
                if chunk == b"":
                    selector.unregister(ready.fileobj)
                buffer = kept[ready.fileobj]
                buffer += chunk[: limit + 1 - len(buffer)]
    try:
        process.wait(max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        timed_out = True
        stop(process)
    return kept, timed_out


def stop(process):
    if os.getpgrp() == os.getpid():
        # The group is ours alone: its other members are the program's own children.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)
    else:
        process.terminate()
    try:
        process.wait(KILL_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def readable(raw, limit):
    text, was_clipped = clip(bytes(raw[:limit]).decode("utf-8", "replace"), limit)
    return text, was_clipped or len(raw) > limit


def last_words(outcome):
    lines = (outcome["stderr"] or outcome["stdout"]).strip().splitlines()
    return f": {lines[-1][:500]}" if lines else ""


run({"run": execute, "handle": execute, "health": health})
