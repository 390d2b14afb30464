"""One HTTP request to an address that the operator set: no redirects, no proxies, bounded answer."""

from __future__ import annotations

import http.client
import re
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from ductile_plugin import Failure

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


def send(method, url, headers, body=None, timeout=30.0, bytes_max=65_536):
    """Sends and reads up to bytes_max + 1 bytes, so that the caller can tell that there was more.

    Errors name only the host: the path of a webhook address often is the secret.
    """
    is_https = url.scheme == "https"
    connect = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
    connection = connect(url.hostname, url.port, timeout=timeout)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    try:
        connection.request(method, target, body, {"User-Agent": "ductile", **headers})
        response = connection.getresponse()
        return Response(response.status, response.headers, response.read(bytes_max + 1))
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Failure(f"cannot reach {url.scheme}://{url.hostname}: {reason}") from error
    finally:
        connection.close()


def _seconds_until(text):
    """A Retry-After, which is a number of seconds or a date; None when it is neither."""
    if re.fullmatch(r"[0-9]{1,12}", text):
        return int(text)
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
