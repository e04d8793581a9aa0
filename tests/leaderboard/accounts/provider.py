"""A small OpenID provider to sign in at, over HTTP: who comes there is ada already.

It takes a code once, from whom it gave it to: for the address, the secret and the PKCE verifier of
the same attempt. What it signs can be made wrong, claim by claim.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "plumbline", "of a test"


class Provider(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, callback: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.callback = callback
        self.published = self.signs_with = rsa.generate_private_key(65537, 2048)
        self.attempts: dict[str, dict[str, str]] = {}
        """By code what was asked for."""
        self.reset()

    def reset(self) -> None:
        self.signs_with = self.published
        self.signed: dict[str, Any] = {}
        """Claims to be put into every identity token; None takes one out."""
        self.told: dict[str, Any] = {}
        """What is told of ada besides, whenever a site asks who she is."""

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def tokens(self, form: dict[str, str]) -> dict[str, str]:
        """In exchange for a code."""
        asked = self.attempts.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        assert (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        assert form["redirect_uri"] == asked["redirect_uri"] == self.callback
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "ada", "iat": now, "exp": now + 600}
        claims |= {"nonce": asked["nonce"], **self.signed}
        held = {name: claim for name, claim in claims.items() if claim is not None}
        token = jwt.encode(held, self.signs_with, "RS256", headers={"kid": "one"})
        return {"access_token": "of ada", "token_type": "Bearer", "id_token": token}


class _Answer(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/authorize":
            query = dict(parse_qsl(asked.query))
            code = secrets.token_hex()
            self.server.attempts[code] = query
            back = urlencode({"code": code, "state": query["state"]})
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri']}?{back}")
            self.end_headers()
        elif asked.path == "/userinfo":
            self._say({"sub": "ada", "preferred_username": "ada", **self.server.told})
        elif asked.path == "/keys":
            key = RSAAlgorithm.to_jwk(self.server.published.public_key(), as_dict=True)
            self._say({"keys": [{**key, "kid": "one", "alg": "RS256"}]})
        else:
            self._say(self.server.configuration())

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._say(self.server.tokens(dict(parse_qsl(form))))

    def _say(self, told: object) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve(callback: str) -> Iterator[Provider]:
    with Provider(callback) as provider:
        thread = threading.Thread(target=provider.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            provider.shutdown()
            thread.join()


def settings_of(provider: Provider, known: dict[str, Any]) -> dict[str, Any]:
    """The site's settings of social accounts with this provider in the place of any other."""
    app = {
        "provider_id": "identity",
        "name": "The identity",
        "client_id": CLIENT,
        "secret": SECRET,
        "settings": {"server_url": provider.url, "scope": ["openid", "profile"]},
    }
    return {"openid_connect": {**known["openid_connect"], "APPS": [app]}}
