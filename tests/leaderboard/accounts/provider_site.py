"""What the provider of the tests is made of; loaded in its own process only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIServer, make_server

from allauth.idp.oidc.adapter import DefaultOIDCAdapter
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.urls import include, path

urlpatterns = [
    path("", include("allauth.idp.urls")),
    path("accounts/", include("allauth.urls")),
]


class Adapter(DefaultOIDCAdapter):
    def populate_id_token(self, id_token: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        told = settings.HOME / "claims.json"
        for name, claim in json.loads(told.read_text() if told.exists() else "{}").items():
            if claim is None:
                id_token.pop(name, None)
            else:
                id_token[name] = claim

    def get_claims(self, purpose: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        claims: dict[str, Any] = super().get_claims(purpose, *args, **kwargs)
        told = settings.HOME / "userinfo.json"
        if purpose == "userinfo" and told.exists():
            claims |= json.loads(told.read_text())
        return claims


def ada_is_here(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    def answer(request: HttpRequest) -> HttpResponse:
        with (settings.HOME / "asked").open("a") as asked:
            asked.write(f"{request.get_full_path()}\n")
        if request.path.endswith("/authorize"):
            request.user = get_user_model().objects.get()
        return get_response(request)

    return answer


def prepare(client: str, secret: str, callback: str) -> None:
    from allauth.idp.oidc.models import Client
    from django.contrib.auth.hashers import make_password

    call_command("migrate", verbosity=0)
    get_user_model().objects.create_user("ada", email="ada@example.org")
    Client.objects.create(
        id=client,
        name="Plumbline",
        secret=make_password(secret),
        scopes="openid\nprofile\nemail",
        redirect_uris=callback,
        skip_consent=True,
    )


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def run(port: Path) -> None:
    with make_server("127.0.0.1", 0, WSGIHandler(), server_class=Server) as server:
        port.write_text(str(server.server_port))
        server.serve_forever()
