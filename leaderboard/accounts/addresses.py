"""Where to sign in and up: those of django-allauth's views that we use, and no other.

Their names are the ones by which it asks for them.
"""

from __future__ import annotations

from allauth.account import views
from allauth.socialaccount import views as identities
from django.urls import path, re_path
from django.views.generic import RedirectView

from leaderboard.accounts import identity, mailing
from leaderboard.accounts.page import Logout, SignIn

TO_SIGN_IN = RedirectView.as_view(pattern_name="login")

SIGNING_IN = [
    path("accounts/login", SignIn.as_view(), name="login"),
    path("accounts/login", TO_SIGN_IN, name="account_login"),
    path("accounts/logout", Logout.as_view(), name="logout"),
    path("accounts/logout", Logout.as_view(), name="account_logout"),
    path("accounts/new", mailing.SignUp.as_view(), name="account_signup"),
    path("accounts/closed", views.account_inactive, name="account_inactive"),
    path("accounts/confirm", views.email_verification_sent, name="account_email_verification_sent"),
    re_path(
        r"^accounts/confirm/(?P<key>[-:\w]+)$", views.confirm_email, name="account_confirm_email"
    ),
    path("accounts/password", mailing.ForgottenPassword.as_view(), name="account_reset_password"),
    path("accounts/password/sent", views.password_reset_done, name="account_reset_password_done"),
    path(
        "accounts/password/changed",
        views.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    re_path(
        r"^accounts/password/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)$",
        views.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path("accounts/name", TO_SIGN_IN, name="socialaccount_signup"),
    path("accounts/name", TO_SIGN_IN, name="socialaccount_connections"),
    path("accounts/cancelled", identities.login_cancelled, name="socialaccount_login_cancelled"),
    path("accounts/<slug:provider_id>/login", identity.login, name="openid_connect_login"),
    path("accounts/<slug:provider_id>/callback", identity.callback, name="openid_connect_callback"),
]
