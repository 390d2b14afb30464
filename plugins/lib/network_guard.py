"""Decides which addresses a plugin may reach. It connects to the address that was checked, never to a name again.

The ranges are those of network-guard.ts, which uses the same file.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import socket

from ductile_plugin import Failure

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "address-ranges.json"), encoding="utf-8") as _file:
    _RANGES = {name: [ipaddress.ip_network(text) for text in listed] for name, listed in json.load(_file).items()}


def classify(text):
    """`forbidden` is never reached; `private` only where the operator opted in; everything else is `public`."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "forbidden"
    if "%" in text or _is_in(address, f"forbidden{address.version}"):
        return "forbidden"
    if _is_in(address, f"private{address.version}"):
        return "private"
    return "public" if address.version == 4 or _is_in(address, "global6") else "forbidden"


def resolve_checked(url, allow_private):
    """Returns the addresses of a URL's host, all of them allowed; a Failure names the one that isn't."""
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Failure(f"{url.hostname} cannot be resolved: {error.strerror}") from error
    except UnicodeError as error:
        raise Failure(f"{url.hostname} cannot be resolved: it is not a host name", retry=False) from error
    for *_, sockaddr in found:
        kind = classify(sockaddr[0])
        if kind == "public" or (kind == "private" and allow_private):
            continue
        hint = "; config.allow_private allows it" if kind == "private" else ""
        message = f"{url.hostname} leads to {sockaddr[0]}, which must not be reached{hint}"
        raise Failure(message, retry=False)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


def open_connection(url, addresses, timeout):
    """Returns an HTTP connection to the first of the addresses that answers, for the host that the URL names."""
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
    if url.scheme == "https":
        # Loaded only here: most of the time to load HTTP goes into TLS.
        import ssl

        connection = http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout)
        context = ssl.create_default_context()
        connection.sock = context.wrap_socket(_dial(addresses, timeout), server_hostname=url.hostname)
    else:
        connection.sock = _dial(addresses, timeout)
    # A second request would connect by name.
    connection.auto_open = 0
    return connection


def _dial(addresses, timeout):
    failure = OSError("no address")
    for family, sockaddr in addresses:
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.settimeout(timeout)
        try:
            opened.connect(sockaddr)
        except OSError as error:
            opened.close()
            failure = error
        else:
            return opened
    raise failure


def _is_in(address, name):
    return any(address in network for network in _RANGES[name])
