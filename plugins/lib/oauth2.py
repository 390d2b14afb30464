"""The life of OAuth 2 tokens in a plugin's state: refresh them before they expire, keep what rotates.

    tokens = Tokens(request)
    tokens.ensure_fresh()
    … use tokens.access_token; on a 401 and if tokens.may_refresh, tokens.refresh() and try again …
    return answer(…, state=tokens.snapshot())
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from urllib.parse import quote, urlencode

from ductile_plugin import Failure, format_time, parse_json, parse_time
from http_request import read_url, send

# Renewed this long before the end, so that a token does not expire on its way.
EARLY_S = 60
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
# Answers of a token endpoint (RFC 6749 §5.2) that only the operator can change.
_PERMANENT = {"invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}


class Tokens:
    def __init__(self, request):
        config, state = request.config, request.state
        self._request = request
        self._url = read_secure_url(config, "token_url")
        self._allow_private = config.flag("allow_private")
        self._client_id = config.text("client_id", required=True)
        self._client_secret = config.text("client_secret", required=True)
        self._client_auth = config.choice("client_auth", ("basic", "body"))
        self._scope = config.text("scope")
        first = config.text("refresh_token")
        self._seed = _digest(first)
        # A new refresh token in the configuration replaces whatever grew out of the old one.
        known = state if first is None or state.get("refresh_seed") == self._seed else {}
        self.access_token = _token(known.get("access_token"))
        self.refresh_token = _token(known.get("refresh_token")) or first
        self.token_expiry = _token(known.get("token_expiry"))
        # The API refused this access token although it was new: another one would fare no better.
        self.is_refused = known.get("is_refused") is True
        self.was_refreshed = False
        self._before = state
        if self.refresh_token is None:
            raise config.refuse("refresh_token", "is needed: there is no token in the state yet")

    def ensure_fresh(self):
        expiry = parse_time(self.token_expiry)
        if self.access_token is None or (expiry is not None and time.time() > expiry - EARLY_S):
            self.refresh()

    @property
    def may_refresh(self):
        return not self.was_refreshed and not self.is_refused

    def refresh(self):
        form = {"grant_type": "refresh_token", "refresh_token": self.refresh_token}
        if self._scope is not None:
            form["scope"] = self._scope
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if self._client_auth == "basic":
            pair = f"{quote(self._client_id, safe='')}:{quote(self._client_secret, safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form.update(client_id=self._client_id, client_secret=self._client_secret)
        response = send("POST", self._url, headers, urlencode(form).encode(),
                        timeout=self._request.seconds_left(at_most=30), allow_private=self._allow_private)
        self._take(response)
        self.was_refreshed = True

    def snapshot(self):
        """The whole state, or None when it is what it was."""
        after = {
            "access_token": self.access_token,
            "refresh_token": self.refresh_token,
            "token_expiry": self.token_expiry,
            "refresh_seed": self._seed,
            "is_refused": self.is_refused,
        }
        return None if after == self._before else after

    def _take(self, response):
        try:
            answer = parse_json(response.body)
        except ValueError:
            answer = None
        answer = answer if isinstance(answer, dict) else {}
        access_token = _token(answer.get("access_token"))
        if not response.is_success or access_token is None:
            raise _refusal(response, answer)
        self.access_token = access_token
        self.refresh_token = _token(answer.get("refresh_token")) or self.refresh_token
        lifetime = answer.get("expires_in")
        is_number = isinstance(lifetime, (int, float)) and not isinstance(lifetime, bool)
        self.token_expiry = format_time(time.time() + lifetime) if is_number else None


def read_secure_url(config, key):
    """Secrets are sent there, so plain http is only for this machine itself, which needs config.allow_private."""
    url = read_url(config, key, required=True)
    if url.scheme != "https" and url.hostname not in _LOOPBACK:
        raise config.refuse(key, "must be https (plain http is only for this machine)")
    return url


def _refusal(response, answer):
    """Names the standard's own error fields and nothing else of the answer."""
    code = _token(answer.get("error"))
    if code is None:
        return response.failure(f"config.token_url answered {response.status} without a token")
    if code in _PERMANENT:
        hint = "check config.client_id and config.client_secret, or set a new config.refresh_token"
        return Failure(f"config.token_url refused the refresh: {code[:100]}; {hint}", retry=False)
    return response.failure(f"config.token_url refused the refresh: {code[:100]}")


def _token(value):
    """A value that can stand in a header; anything else counts as none at all."""
    return value if isinstance(value, str) and re.fullmatch(r"[\x21-\x7e]+", value) else None


def _digest(secret):
    return None if secret is None else hashlib.sha256(secret.encode()).hexdigest()[:16]
