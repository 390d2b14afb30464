#!/usr/bin/env python3
"""Reads an API behind OAuth 2. The tokens live in the plugin's state; the runtime knows nothing of them."""

import os
import sys

sys.dont_write_bytecode = True  # the plugin's folders stay as they were checked
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "../lib"), os.path.join(here, "../../sdk/python")]

from ductile_plugin import PAYLOAD_BYTES_MAX, Failure, answer, encoded_size, is_storable, parse_json, run
from http_request import read_headers, send
from oauth2 import Tokens, read_secure_url


def poll(request):
    tokens = Tokens(request)
    api = Api(request)
    tokens.ensure_fresh()
    try:
        event = to_event(api.fetch(tokens), api.bytes_max)
    except Failure as failure:
        if not tokens.was_refreshed:
            raise
        # A failed answer would throw the new tokens away, and the old refresh token may be used up.
        logs = [("error", f"{failure}; the next poll tries again with the new tokens")]
        return answer(f"tokens refreshed, but: {failure}", state=tokens.snapshot(), logs=logs)
    return answer(f"fetched {api.host}", [event], tokens.snapshot())


def health(request):
    tokens = Tokens(request)
    Api(request)
    if tokens.access_token is None:
        return answer("configured; the first poll gets an access token")
    return answer(f"access token valid until {tokens.token_expiry or 'the API refuses it'}")


class Api:
    def __init__(self, request):
        self._request = request
        self._url = read_secure_url(request.config, "api_url")
        self._headers = read_headers(request.config, "headers", reserved=("authorization",))
        self.bytes_max = request.config.whole("max_bytes", 262_144, 1, 700_000)
        self.host = self._url.hostname
        self._allow_private = request.config.flag("allow_private")

    def fetch(self, tokens):
        response = self._ask(tokens)
        if response.status == 401 and tokens.may_refresh:
            tokens.refresh()
            response = self._ask(tokens)
        tokens.is_refused = response.status == 401
        if not response.is_success:
            raise response.failure(f"config.api_url answered {response.status}")
        return response

    def _ask(self, tokens):
        headers = {"Accept": "application/json", **self._headers}
        headers["Authorization"] = f"Bearer {tokens.access_token}"
        timeout = self._request.seconds_left(at_most=30)
        return send("GET", self._url, headers, timeout=timeout, bytes_max=self.bytes_max,
                    allow_private=self._allow_private)


def to_event(response, bytes_max):
    if len(response.body) > bytes_max:
        raise Failure(f"the answer is larger than config.max_bytes ({bytes_max})", retry=False)
    payload = {"status": response.status, "content_type": response.headers.get("Content-Type", "")}
    try:
        data = parse_json(response.body)
        is_data = is_storable(data)
    except ValueError:
        is_data = False
    if is_data:
        payload["data"] = data
    else:
        payload["body"] = response.body.decode("utf-8", "replace").replace("\0", "\ufffd")
    if encoded_size(payload) > PAYLOAD_BYTES_MAX:
        raise Failure("the answer is too large for an event; lower config.max_bytes", retry=False)
    return {"type": "oauth-fetch.data", "payload": payload}


run({"poll": poll, "health": health})
