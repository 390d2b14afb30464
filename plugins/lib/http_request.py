"""One HTTP request to a checked address: no redirects, no proxies, bounded in size and time."""

from __future__ import annotations

import http.client
import re
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from ductile_plugin import Failure
from network_guard import open_connection, resolve_checked

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Set by the request itself; two of them would be an ambiguous request.
_OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection"}
_RETRYABLE = {408, 425, 429}


class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def is_success(self):
        return 200 <= self.status < 300

    @property
    def is_retryable(self):
        return self.status >= 500 or self.status in _RETRYABLE

    def failure(self, message):
        """Says with the message whether another try may help, and when the server wants it."""
        if not self.is_retryable:
            return Failure(message, retry=False)
        return Failure(message, retry_after_seconds=_seconds_until(self.headers.get("Retry-After", "")))


def read_url(config, key, required=False):
    """A web address from the configuration, split into its parts."""
    text = config.text(key, required=required)
    if text is None:
        return None
    try:
        url = urlsplit(text)
        is_web = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_web = False
    if not is_web or not text.isascii() or re.search(r"[\x00-\x20\x7f]", text):
        raise config.refuse(key, "must be an http or https address")
    if url.username is not None or url.password is not None:
        raise config.refuse(key, "must not contain a user or a password; use a header")
    return url


def read_headers(config, key, reserved=()):
    headers = config.mapping(key)
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in {*_OWN_HEADERS, *reserved}:
            raise config.refuse(key, f"cannot have a header named {name!r}")
        if not isinstance(value, str) or not re.fullmatch(r"[\x20-\x7e]*", value):
            raise config.refuse(key, f"must give {name} a string of printable ASCII")
    return headers


def send(method, url, headers, body=None, timeout=30.0, bytes_max=65_536, allow_private=False):
    """Sends and reads up to bytes_max + 1 bytes, so that the caller can tell that there was more.

    Errors name only the host: the path of a webhook address often is the secret.
    """
    deadline = time.monotonic() + timeout
    addresses = resolve_checked(url, allow_private)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    connection = None
    try:
        connection = open_connection(url, addresses, timeout)
        opened = connection.sock
        connection.request(method, target, body, {"User-Agent": "ductile", **headers})
        response = connection.getresponse()
        return Response(response.status, response.headers, _read(response, opened, bytes_max, deadline))
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Failure(f"cannot reach {url.scheme}://{url.hostname}: {reason}") from error
    finally:
        if connection is not None:
            connection.close()


def _read(response, opened, bytes_max, deadline):
    """A body that was cut, by the deadline or by the server, is an error and never a shorter body."""
    wanted = bytes_max + 1 if response.length is None else min(bytes_max + 1, response.length)
    is_known = response.length is not None
    body = b""
    while len(body) < wanted:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the response took too long")
        # The limit covers the whole response; otherwise a slow server would never time out.
        opened.settimeout(left)
        chunk = response.read1(wanted - len(body))
        body += chunk
        if chunk == b"":
            if is_known:
                raise http.client.IncompleteRead(body, wanted - len(body))
            break
    return body


def _seconds_until(text):
    """A Retry-After, which is a number of seconds or a date; None when it is neither."""
    if re.fullmatch(r"[0-9]{1,12}", text):
        return int(text)
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
