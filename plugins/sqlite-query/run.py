#!/usr/bin/env python3
"""Asks a SQLite database. Values are bound, never pasted; what a statement may do SQLite itself enforces."""

import os
import sys
import time

sys.dont_write_bytecode = True  # the plugin's folders stay as they were checked
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sdk/python"))

import base64
import math
import re
import resource
import sqlite3
from urllib.parse import quote

from ductile_plugin import Failure, answer, encoded_size, is_storable, run

ROWS_BYTES_MAX = 700_000
SQL_BYTES_MAX = 100_000
VALUE_BYTES_MAX = 8_000_000
MEMORY_BYTES_MAX = 512 * 1024 * 1024
# Steps of SQLite's virtual machine between two checks of the clock.
STEPS = 10_000
SAFE_INTEGER = 2**53 - 1

READ = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
WRITE = READ | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_TRANSACTION}
# Functions that reach outside the database.
FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
# Pragmas that only describe the schema, and those that SQLite's full-text search uses.
HARMLESS_PRAGMAS = {"data_version", "table_info", "table_xinfo", "table_list", "index_list", "index_info"}

COMMENT = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$)", re.DOTALL)


def query(request):
    sql = choose(request, ("SELECT", "WITH", "VALUES"))
    with Database(request, READ) as database:
        cursor = database.run(sql, read_params(request))
        rows = database.collect(cursor, database.rows_max)
    payload = {**rows, "row_count": len(rows["rows"])}
    more = ", and there are more" if rows["truncated"] else ""
    return answer(f"rows: {len(rows['rows'])}{more}", [{"type": "sqlite-query.rows", "payload": payload}])


def execute(request):
    if not request.config.flag("allow_write"):
        raise request.config.refuse("allow_write", "must be true for the command execute")
    sql = choose(request, ("INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"))
    with Database(request, WRITE) as database:
        cursor = database.run(sql, read_params(request))
        rows = database.collect(cursor, None) if cursor.description else {}
        affected = database.run("SELECT changes()", ()).fetchone()[0]
        database.commit()
    payload = {"rows_affected": affected, **rows}
    return answer(f"rows affected: {affected}", [{"type": "sqlite-query.executed", "payload": payload}])


def health(request):
    read_queries(request.config)
    request.config.flag("allow_write")
    with Database(request, READ) as database:
        cursor = database.run("SELECT count(*) FROM sqlite_master", ())
        return answer(f"objects in the schema: {cursor.fetchone()[0]}")


def choose(request, allowed):
    """The one statement to run: a listed one, or the payload's own where none is listed."""
    listed = read_queries(request.config)
    if listed:
        name = request.payload.text("query", required=True)
        if name not in listed:
            raise request.payload.refuse("query", f"must be one of {', '.join(sorted(listed))}")
        sql, place = listed[name], f"config.queries.{name}"
    else:
        sql, place = request.payload.text("sql", required=True), "payload.sql"
    if len(sql) > SQL_BYTES_MAX:
        raise Failure(f"{place} is longer than {SQL_BYTES_MAX} characters", retry=False)
    if first_word(sql) not in allowed:
        raise Failure(f"{place} must begin with {' or '.join(allowed)}", retry=False)
    return sql


def read_queries(config):
    listed = config.mapping("queries")
    for name, sql in listed.items():
        if not isinstance(sql, str):
            raise config.refuse(f"queries.{name}", "must be a statement")
    return listed


def first_word(sql):
    at = 0
    while (match := COMMENT.match(sql, at)) and match.end() > at:
        at = match.end()
    word = re.compile(r"[A-Za-z]+").match(sql, at)
    return word[0].upper() if word else ""


def read_params(request):
    params = request.payload.values.get("params")
    if params is None:
        params = {}
    if not isinstance(params, (list, dict)):
        raise request.payload.refuse("params", "must be a list or an object")
    for value in params.values() if isinstance(params, dict) else params:
        if isinstance(value, (list, dict)):
            raise request.payload.refuse("params", "must contain only strings, numbers, booleans and null")
    if isinstance(params, dict):
        return {"idempotency_key": request.idempotency_key, **params}
    return params


class Database:
    def __init__(self, request, allowed):
        config = request.config
        self.path = config.path("path", required=True)
        self.rows_max = config.whole("max_rows", 1000, 1, 10_000)
        timeout = config.whole("timeout_ms", 30_000, 1, 3_600_000) / 1000
        self._deadline = time.monotonic() + request.seconds_left(at_most=timeout)
        self._allowed = allowed

    def __enter__(self):
        if not os.path.isfile(self.path):
            raise Failure(f"config.path {self.path} is not a file")
        mode = "rw" if self._allowed is WRITE else "ro"
        busy = min(5.0, self._deadline - time.monotonic())
        try:
            self._connection = sqlite3.connect(f"file:{quote(self.path)}?mode={mode}", uri=True, timeout=busy)
        except sqlite3.Error as error:
            raise Failure(f"config.path {self.path} cannot be opened: {error}") from error
        self._bound_values()
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._connection.set_progress_handler(lambda: time.monotonic() > self._deadline, STEPS)
        self._connection.set_authorizer(self._authorize)
        return self

    def __exit__(self, *_):
        self._connection.close()

    def _bound_values(self):
        """No statement can make a value so large that it takes the machine's memory."""
        if hasattr(self._connection, "setlimit"):
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        else:  # before Python 3.11 only the whole process can be bounded
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))

    def run(self, sql, params):
        return self._guard(lambda: self._connection.execute(sql, params))

    def commit(self):
        self._guard(self._connection.commit)

    def collect(self, cursor, rows_max):
        """Rows as objects. None reads a statement to its end, keeping what fits into an event."""
        columns = name_columns(cursor.description)
        rows, size, truncated = [], 0, False
        while (row := self._guard(cursor.fetchone)) is not None:
            if len(rows) == rows_max:
                truncated = True
                break
            shaped = dict(zip(columns, map(to_json, row)))
            size += encoded_size(shaped) + 2
            truncated = truncated or size > ROWS_BYTES_MAX
            if not truncated:
                rows.append(shaped)
            elif rows_max is not None:
                break
        return {"columns": columns, "rows": rows, "truncated": truncated}

    def _authorize(self, action, first, second, _schema, _trigger):
        if action == sqlite3.SQLITE_FUNCTION and second in FORBIDDEN_FUNCTIONS:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_PRAGMA:
            return sqlite3.SQLITE_OK if first in HARMLESS_PRAGMAS else sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            # How a virtual table (json_each, full-text search) declares its columns. A real change
            # of the schema table SQLite refuses by itself.
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_OK if action in self._allowed else sqlite3.SQLITE_DENY

    def _guard(self, step):
        try:
            return step()
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            if reason == "interrupted":
                raise Failure("the statement took longer than config.timeout_ms or the deadline") from error
            if "not authorized" in reason or "prohibited" in reason:
                reason = "the statement does more than this command allows"
            raise Failure(f"SQLite: {reason}", retry="locked" in reason or "busy" in reason) from error


def name_columns(description):
    """The names of the columns; a repeated one gets a number so that no value is lost."""
    names = []
    for name, *_ in description:
        candidate, number = name, 2
        while candidate in names:
            candidate, number = f"{name}_{number}", number + 1
        names.append(candidate)
    return names


def to_json(value):
    """What JSON or the runtime cannot hold becomes text (large numbers) or base64 (bytes)."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, int) and abs(value) > SAFE_INTEGER:
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str) and not is_storable(value):
        return {"base64": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return value


run({"query": query, "handle": query, "execute": execute, "health": health})
