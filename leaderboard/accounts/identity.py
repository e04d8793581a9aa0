"""Signing in by OpenID Connect, at Hugging Face or where the operator says.

django-allauth speaks the protocol: state, PKCE, issuer, audience, expiry. Here stands what it
leaves out: what we ask for is ours alone to say (an address with `?scope=` cannot widen it), every
attempt has a nonce, and the signature of the identity token is checked however it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jwt
import requests
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.crypto import get_random_string
from django.views.decorators.http import require_GET

NONCE_CHARACTERS = 43
"""As many random bits as a SHA-256."""


SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""By a key of which the provider publishes the public half; none that shares a secret."""
KEYS_TIMEOUT = 10.0
"""Seconds in which the provider must send its keys."""


class Conversation(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """The requests of one attempt to sign in, between this site and the provider."""

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **answer: Any
    ) -> SocialLogin:
        """Raises OAuth2Error for an identity token that the provider did not sign for this site."""
        if id_token := answer["response"].get("id_token"):
            self.check_signature(id_token, app)
        return super().complete_login(request, app, token, **answer)

    def check_signature(self, id_token: str, app: SocialApp) -> None:
        keys = jwt.PyJWKClient(self.openid_config["jwks_uri"], timeout=KEYS_TIMEOUT)
        try:
            jwt.decode(
                id_token,
                keys.get_signing_key_from_jwt(id_token),
                algorithms=SIGNATURES,
                audience=app.client_id,
                issuer=self.openid_config["issuer"],
            )
        except jwt.PyJWTError as problem:
            raise OAuth2Error("the identity token is not the provider's") from problem


class Provider(OpenIDConnectProvider):  # type: ignore[misc]
    """The provider of the settings; of what a visitor's address says nothing reaches it."""

    oauth2_adapter_class = Conversation
    pkce_enabled_default = True

    def get_scope_from_request(self, request: HttpRequest) -> list[str]:  # noqa: ARG002
        scope: list[str] = self.get_scope()
        return scope

    def get_auth_params_from_request(
        self,
        request: HttpRequest,  # noqa: ARG002
        action: str,  # noqa: ARG002
    ) -> dict[str, str]:
        parameters: dict[str, str] = self.get_auth_params()
        return parameters

    def redirect(self, request: HttpRequest, process: str, *args: Any, **options: Any) -> Any:
        nonce = get_random_string(NONCE_CHARACTERS)
        options["auth_params"] = {**self.get_auth_params(), "nonce": nonce}
        return super().redirect(request, process, *args, nonce=nonce, **options)


def login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Go to the provider. A GET begins nothing: a link elsewhere could else sign people in.

    By a page that leads there: a browser counts every address to which a form's answer redirects,
    the provider's own redirects among them, as one that the site's policy must allow for forms.
    """
    if request.method != "POST":
        return redirect("login")
    answer = _answer(request, provider_id, OAuth2LoginView.adapter_view)
    if not isinstance(answer, HttpResponseRedirect):
        return answer
    there = {"address": answer.url, "name": settings.OIDC_NAME}
    page = render(request, "accounts/leaving.html", there)
    page["Cache-Control"] = "no-store"  # what is in the address counts once
    return page


@require_GET
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Come back from the provider."""
    return _answer(request, provider_id, OAuth2CallbackView.adapter_view)


def _answer(
    request: HttpRequest, provider_id: str, view: Callable[[Conversation], Any]
) -> HttpResponse:
    conversation = Conversation(request, provider_id)
    try:
        conversation.get_provider()
    except SocialApp.DoesNotExist:
        raise Http404("This site has no such way to sign in.") from None
    try:
        answer: HttpResponse = view(conversation)(request)
        return answer
    except (requests.RequestException, KeyError, ValueError) as problem:
        # The provider cannot be reached, or says what no provider says.
        told: HttpResponse = render_authentication_error(
            request, conversation.get_provider(), exception=problem
        )
        return told
