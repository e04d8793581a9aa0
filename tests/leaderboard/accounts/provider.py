"""An OpenID provider to sign in at: django-allauth's own, in a process of its own.

`serve` starts it; who comes there is ada already. What it signs can be made wrong, claim by claim,
by the file that it reads before each token, and it writes down what it was asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

CLIENT, SECRET = "plumbline", "of a test"


@dataclass(frozen=True)
class Served:
    url: str
    home: Path

    def sign(self, **claims: Any) -> None:
        """Put these claims into every identity token from now on; None takes one out."""
        (self.home / "claims.json").write_text(json.dumps(claims))

    def tell(self, **claims: Any) -> None:
        """Tell these of ada besides, whenever a site asks who she is."""
        (self.home / "userinfo.json").write_text(json.dumps(claims))


@contextmanager
def serve(home: Path, callback: str) -> Iterator[Served]:
    environment = {
        **os.environ, "HOME_OF_PROVIDER": str(home), "CALLBACK": callback, "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    log = (home / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.leaderboard.accounts.provider"],
        env=environment, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        for _ in range(600):
            port = home / "port"
            if port.exists() and port.read_text():
                url = f"http://127.0.0.1:{port.read_text()}"
                with urlopen(f"{url}/.well-known/openid-configuration", timeout=20):
                    break
            assert process.poll() is None, (home / "log").read_text()
            time.sleep(0.1)
        else:
            raise AssertionError((home / "log").read_text())
        yield Served(url, home)
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def main() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from django.conf import settings

    home = Path(os.environ["HOME_OF_PROVIDER"])
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    settings.configure(
        SECRET_KEY="of a provider",
        DEBUG=True,
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF="tests.leaderboard.accounts.provider_site",
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "allauth",
            "allauth.account",
            "allauth.idp.oidc",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "allauth.account.middleware.AccountMiddleware",
            "tests.leaderboard.accounts.provider_site.ada_is_here",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
            }
        ],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(home / "provider.db")}
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        IDP_OIDC_PRIVATE_KEY=pem,
        IDP_OIDC_ADAPTER="tests.leaderboard.accounts.provider_site.Adapter",
        HOME=home,
    )
    import django

    django.setup()
    from tests.leaderboard.accounts import provider_site

    provider_site.prepare(CLIENT, SECRET, os.environ["CALLBACK"])
    provider_site.run(home / "port")


if __name__ == "__main__":
    main()
