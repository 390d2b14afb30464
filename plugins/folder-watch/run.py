#!/usr/bin/env python3
"""Watches a folder: compares it with the last snapshot and says what is new, other or gone."""

import os
import sys
import time

sys.dont_write_bytecode = True  # the plugin's folders stay as they were checked
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sdk/python"))

import fnmatch
import hashlib
import re

from ductile_plugin import STATE_BYTES_MAX, Failure, answer, encoded_size, format_time, run

# Entries that one poll reads at most, to limit time and memory.
ENTRIES_MAX = 500_000
FILES_MAX = 10_000
EVENTS_MAX = 1_000


class Watch:
    """What is watched (part of the snapshot, because another scope needs another baseline) and how."""

    def __init__(self, config):
        self.path = os.path.normpath(config.path("path", required=True))
        self.scope = {
            "path": self.path,
            "pattern": config.text("pattern", default="*"),
            "recursive": config.flag("recursive"),
        }
        self.min_age_ms = config.whole("min_age_ms", 1000, 0, 86_400_000)
        self.files_max = config.whole("max_files", 5000, 1, FILES_MAX)
        self.events_max = config.whole("max_events", 100, 1, EVENTS_MAX)
        self.emit_initial = config.flag("emit_initial")

    def wants(self, name):
        """A pattern with a slash is for the path below the folder, any other for the file's name."""
        pattern = self.scope["pattern"]
        subject = name if "/" in pattern else os.path.basename(name)
        if subject.startswith(".") and not pattern.startswith("."):
            return False
        return fnmatch.fnmatchcase(subject, pattern)

    def is_settled(self, mtime_ns):
        """A file just written may still be growing. One dated far ahead never would be old enough."""
        return abs(time.time_ns() - mtime_ns) >= self.min_age_ms * 1_000_000

    def snapshot(self, files):
        state = {**self.scope, "files": {name: files[name] for name in sorted(files)}}
        if encoded_size(state) > STATE_BYTES_MAX:
            raise too_many(self, f"the names of {len(files)} files do not fit into one snapshot")
        return state


def poll(request):
    watch = Watch(request.config)
    found, logs = scan(watch, request)
    before = recorded(watch, request.state)
    if before is None and not watch.emit_initial:
        files = {name: stamp for name, stamp in found.items() if watch.is_settled(mtime_of(stamp))}
        return answer(f"recorded {len(files)} files", state=watch.snapshot(files), logs=logs)
    after = dict(before or {})
    changes = find_changes(watch, after, found)
    events = []
    for kind, name in changes[: watch.events_max]:
        events.append(to_event(watch, kind, name, found.get(name) or after[name]))
        if kind == "file_removed":
            del after[name]
        else:
            after[name] = found[name]
    left = len(changes) - len(events)
    summary = f"{len(events)} changes" + (f", {left} more next time" if left else "")
    changed = before is None or bool(events)
    return answer(summary, events, watch.snapshot(after) if changed else None, logs)


def health(request):
    watch = Watch(request.config)
    list_folder(watch.path)
    return answer(f"{watch.path} can be read")


def recorded(watch, state):
    """The files of the last snapshot, or None when there is none for what is watched now."""
    files = state.get("files")
    same_scope = all(state.get(key) == value for key, value in watch.scope.items())
    is_sound = isinstance(files, dict) and all(is_stamp(stamp) for stamp in files.values())
    return files if same_scope and is_sound else None


def find_changes(watch, before, found):
    changes = []
    for name in sorted(before.keys() | found.keys()):
        if name not in found:
            changes.append(("file_removed", name))
        elif found[name] != before.get(name) and watch.is_settled(mtime_of(found[name])):
            changes.append(("file_modified" if name in before else "file_added", name))
    return changes


def scan(watch, request):
    """Stamps of the wanted files by their path below the folder. Links are not followed."""
    give_up_at = time.monotonic() + request.seconds_left(at_most=3600)
    found, unreadable, seen = {}, 0, 0
    folders = [""]
    while folders:
        folder = folders.pop()
        for entry in list_folder(os.path.join(watch.path, folder)):
            seen += 1
            name = os.path.join(folder, entry.name)
            if seen > ENTRIES_MAX:
                raise too_many(watch, f"it holds more than {ENTRIES_MAX} entries")
            if seen % 1000 == 0 and time.monotonic() > give_up_at:
                raise Failure(f"config.path {watch.path} could not be read before the deadline")
            if entry.is_dir(follow_symlinks=False):
                if watch.scope["recursive"]:
                    folders.append(name)
            elif entry.is_file(follow_symlinks=False) and watch.wants(name):
                if not is_text(name):
                    unreadable += 1
                elif (stamp := stamp_of(entry)) is not None:
                    found[name] = stamp
                if len(found) > watch.files_max:
                    raise too_many(watch, f"more than config.max_files ({watch.files_max}) files match")
    logs = [("warn", f"skipped {unreadable} files whose names are not UTF-8")] if unreadable else None
    return found, logs


def list_folder(folder):
    """A folder that cannot be read is a failure, never a folder whose files are all gone."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise Failure(f"config.path: cannot read {folder!r}: {error.strerror}") from error


def stamp_of(entry):
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # gone since it was listed
        return None
    # Text, because nanoseconds do not fit into the numbers of JSON.
    return f"{status.st_size}:{status.st_mtime_ns}"


def is_stamp(value):
    return isinstance(value, str) and re.fullmatch(r"[0-9]+:-?[0-9]+", value) is not None


def mtime_of(stamp):
    return int(stamp.split(":")[1])


def is_text(name):
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def to_event(watch, kind, name, stamp):
    path = os.path.join(watch.path, name)
    digest = hashlib.sha256(f"{path}\0{stamp}".encode()).hexdigest()[:32]
    return {
        "type": f"folder-watch.{kind}",
        "payload": {
            "path": path,
            "name": name,
            "size": int(stamp.split(":")[0]),
            "mtime": format_time(mtime_of(stamp) / 1e9),
        },
        "dedupe_key": f"folder-watch.{kind}:{digest}",
    }


def too_many(watch, reason):
    hint = "narrow config.pattern or watch its subfolders one by one"
    return Failure(f"config.path {watch.path} is too large: {reason}; {hint}", retry=False)


run({"poll": poll, "health": health})
