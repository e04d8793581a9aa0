"""Settings of the site and its runners, all from environment variables.

`docs/configuration.md` lists them. A fresh clone runs on SQLite and files under PLUMBLINE_HOME;
production names a PostgreSQL database and a Redis broker, nothing else changes.
"""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF

from leaderboard import environment as env
from leaderboard import logs

BASE_DIR = Path(__file__).resolve().parent.parent
PLUMBLINE_HOME = Path(env.text("PLUMBLINE_HOME", str(BASE_DIR / "var"))).resolve()
PLUMBLINE_TASKS = Path(env.text("PLUMBLINE_TASKS", str(BASE_DIR / "tasks"))).resolve()
PLUMBLINE_SUITE = env.text("PLUMBLINE_SUITE", "styles")
PLUMBLINE_OPEN_SUBMIT = env.boolean("PLUMBLINE_OPEN_SUBMIT")
# Submissions in 24 hours: of one account, of one visitor without one, and of all those together.
PLUMBLINE_USER_QUOTA = env.integer("PLUMBLINE_USER_QUOTA", 20)
PLUMBLINE_VISITOR_QUOTA = env.integer("PLUMBLINE_VISITOR_QUOTA", 10)
PLUMBLINE_OPEN_QUOTA = env.integer("PLUMBLINE_OPEN_QUOTA", 200)
# What one visitor, or one account, may ask for in a minute; 0 is without a limit.
PLUMBLINE_CHECKS_PER_MINUTE = env.integer("PLUMBLINE_CHECKS_PER_MINUTE", 30)
PLUMBLINE_PAGES_PER_MINUTE = env.integer("PLUMBLINE_PAGES_PER_MINUTE", 120)
PLUMBLINE_DOWNLOADS_PER_MINUTE = env.integer("PLUMBLINE_DOWNLOADS_PER_MINUTE", 30)
PLUMBLINE_SIGN_INS_PER_MINUTE = env.integer("PLUMBLINE_SIGN_INS_PER_MINUTE", 10)
# Proxies in front of the site that add to X-Forwarded-For; nobody else's word on it is taken.
PLUMBLINE_PROXIES = env.integer("PLUMBLINE_PROXIES", 0)
# Models that a worker keeps after their runs: for so long, and all together so many bytes.
PLUMBLINE_CACHE_DAYS = env.integer("PLUMBLINE_CACHE_DAYS", 30)
PLUMBLINE_CACHE_BYTES = env.integer("PLUMBLINE_CACHE_GB", 500) * 10**9
# Answers of runs that failed, kept for their next submission: all together so many bytes.
PLUMBLINE_JOURNAL_BYTES = env.integer("PLUMBLINE_JOURNAL_GB", 50) * 10**9
# By which the wall-clock time that a run may take is multiplied (docs/configuration.md).
PLUMBLINE_VLLM_PYTHON = env.text("PLUMBLINE_VLLM_PYTHON", "")
PLUMBLINE_VLLM_ARGS = env.arguments(
    "PLUMBLINE_VLLM_ARGS",
    (
        *("enforce_eager", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens"),
        *("tensor_parallel_size", "pipeline_parallel_size", "distributed_executor_backend"),
        "block_size",
    ),
)
# Seconds for which an idle worker keeps the model that it has loaded; 0: it keeps none.
PLUMBLINE_KEEP_MODEL = env.integer("PLUMBLINE_KEEP_MODEL", 0)
PLUMBLINE_TIME_FACTOR = env.positive("PLUMBLINE_TIME_FACTOR", 1.0)
# Models whose own code is run: repositories whose code the operator has read, each at a commit.
PLUMBLINE_TRUSTED_CODE = env.commits("PLUMBLINE_TRUSTED_CODE")
PLUMBLINE_LOG = env.one_of("PLUMBLINE_LOG", logs.FORMS)
# What whoever reads /metrics must send; where it is not set, there are none.
PLUMBLINE_METRICS_TOKEN = env.secret("PLUMBLINE_METRICS_TOKEN", "")
# Whether workers run models where nothing confines them: docs/sandbox.md.
PLUMBLINE_UNCONFINED = env.boolean("PLUMBLINE_UNCONFINED")
# Who answers for this site: a name, and an address or page; shown on /about.
PLUMBLINE_OPERATOR = env.text("PLUMBLINE_OPERATOR", "")
PLUMBLINE_CONTACT = env.text("PLUMBLINE_CONTACT", "")
PUBLIC_HUB = "https://huggingface.co"
# For the download alone; a worker gives it to no process that runs a model.
HF_TOKEN = env.secret("HF_TOKEN", "")
HF_ENDPOINT = env.text("HF_ENDPOINT", PUBLIC_HUB).rstrip("/")

DEBUG = env.boolean("PLUMBLINE_DEBUG")
SECRET_KEY = env.secret(
    "PLUMBLINE_SECRET_KEY",
    "for-development-only" if DEBUG else None,
    kept=PLUMBLINE_HOME / "secret_key",
)
# Keys of before, by spaces or lines: what they signed still counts until they are taken away.
SECRET_KEY_FALLBACKS = env.secret("PLUMBLINE_SECRET_KEY_FALLBACKS", "").split()
ALLOWED_HOSTS = env.text("PLUMBLINE_HOSTS", "127.0.0.1,localhost,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in env.text("PLUMBLINE_ORIGINS", "").split(",") if o]
HTTPS = env.boolean("PLUMBLINE_HTTPS")

# Who else says who somebody is, by OpenID Connect; without a client ID nobody does.
PLUMBLINE_OIDC_ISSUER = env.text("PLUMBLINE_OIDC_ISSUER", PUBLIC_HUB).rstrip("/")
PLUMBLINE_OIDC_CLIENT_ID = env.text("PLUMBLINE_OIDC_CLIENT_ID", "")
PLUMBLINE_OIDC_CLIENT_SECRET = env.secret("PLUMBLINE_OIDC_CLIENT_SECRET", "")
_OF_THE_HUB = PLUMBLINE_OIDC_ISSUER == PUBLIC_HUB
OIDC_ID = "huggingface" if _OF_THE_HUB else "identity"
OIDC_NAME = "Hugging Face" if _OF_THE_HUB else urlsplit(PLUMBLINE_OIDC_ISSUER).hostname or ""
# By which server mail is sent, and from whom; without one no account is made by its address.
PLUMBLINE_MAIL_URL = env.secret("PLUMBLINE_MAIL_URL", "")
PLUMBLINE_MAIL_FROM = env.text("PLUMBLINE_MAIL_FROM", "plumbline@localhost")

INSTALLED_APPS = [
    "leaderboard.apps.Administration",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.sitemaps",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "leaderboard",
    "runners",
]
MIDDLEWARE = [
    "leaderboard.middleware.forbid_unused_powers",
    "csp.middleware.CSPMiddleware",
    "leaderboard.middleware.answer_health_checks",
    "leaderboard.health.time_requests",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "leaderboard.middleware.refuse_null_characters",
    "leaderboard.middleware.keep_personal_pages_private",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "leaderboard.middleware.mark_unseen_characters",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "leaderboard.middleware.SayWhatIsUnavailable",
    "leaderboard.middleware.SayWhenToAskAgain",
]
ROOT_URLCONF = "leaderboard.urls"
WSGI_APPLICATION = "leaderboard.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "leaderboard.web.chrome.site",
            ],
        },
    },
    {
        # For what has thousands of cells (docs/decisions/0012-board-rendering.md).
        "BACKEND": "django.template.backends.jinja2.Jinja2",
        "DIRS": [BASE_DIR / "templates"],  # its files end in .jinja
        "OPTIONS": {"trim_blocks": True, "lstrip_blocks": True},
    },
]

DATABASES = {"default": env.database("PLUMBLINE_DATABASE_URL", PLUMBLINE_HOME)}
# Celery reads it through runners/celery.py; the site sends no message.
PLUMBLINE_BROKER_URL = env.secret("PLUMBLINE_BROKER_URL", "filesystem://")
# Where all processes of the site count together; without it each counts for itself.
PLUMBLINE_CACHE_URL = env.redis("PLUMBLINE_CACHE_URL", PLUMBLINE_BROKER_URL)
CACHES = {
    "default": env.counts("default", PLUMBLINE_CACHE_URL, 10_000),
    "throttle": env.counts("throttle", PLUMBLINE_CACHE_URL, 100_000),
    # Pictures and what the Hub said: large, and cheap to make once more in each process.
    "local": env.counts("local", "", 300),
    # Finished pages, compressed: some 30 kB each (leaderboard/web/kept.py).
    "pages": env.counts("pages", "", 1000),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "leaderboard.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
ACCOUNT_ADAPTER = "leaderboard.accounts.rules.Accounts"
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*"]
ACCOUNT_USERNAME_VALIDATORS = "leaderboard.accounts.rules.NAME_VALIDATORS"
ACCOUNT_SESSION_REMEMBER = True
# More than one: the next try after mail could not be sent must not wait.
ACCOUNT_RATE_LIMITS = {"confirm_email": "5/h/key"}
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[Plumbline] "
SOCIALACCOUNT_ADAPTER = "leaderboard.accounts.rules.Identities"
SOCIALACCOUNT_EMAIL_VERIFICATION, SOCIALACCOUNT_EMAIL_REQUIRED = "none", False
# Asked for a name alone: what is not known cannot be lost.
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "APPS": [
            {
                "provider_id": OIDC_ID,
                "name": OIDC_NAME,
                "client_id": PLUMBLINE_OIDC_CLIENT_ID,
                "secret": PLUMBLINE_OIDC_CLIENT_SECRET,
                "settings": {
                    "server_url": PLUMBLINE_OIDC_ISSUER,
                    "scope": ["openid", "profile"],
                    "oauth_pkce_enabled": True,
                },
            }
        ][: 1 if PLUMBLINE_OIDC_CLIENT_ID else 0],
    }
}
DEFAULT_FROM_EMAIL = SERVER_EMAIL = PLUMBLINE_MAIL_FROM
EMAIL_TIMEOUT = 10
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
globals().update(env.mail("PLUMBLINE_MAIL_URL"))
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "board"
LOGOUT_REDIRECT_URL = "board"

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "artifacts": {
        "BACKEND": "leaderboard.samples.store.Folder",
        "OPTIONS": {"location": PLUMBLINE_HOME / "artifacts"},
    },
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
# Stored files in a bucket of S3, of which each machine keeps copies of what it read of late.
PLUMBLINE_S3_BUCKET = env.text("PLUMBLINE_S3_BUCKET", "")
PLUMBLINE_S3_ENDPOINT = env.text("PLUMBLINE_S3_ENDPOINT", "")
# Without a key boto3 looks for one where the machine has it, as on a cloud's own machines.
PLUMBLINE_S3_SECRET_KEY = env.secret("PLUMBLINE_S3_SECRET_KEY", "")
if PLUMBLINE_S3_BUCKET:
    STORAGES["artifacts"] = {
        "BACKEND": "leaderboard.samples.bucket.Bucket",
        "OPTIONS": {
            "here": PLUMBLINE_HOME / "fetched",
            "most_bytes": env.integer("PLUMBLINE_FETCHED_GB", 50) * 10**9,
            "bucket_name": PLUMBLINE_S3_BUCKET,
            "endpoint_url": PLUMBLINE_S3_ENDPOINT or None,
            "region_name": env.text("PLUMBLINE_S3_REGION", "us-east-1"),
            "access_key": env.secret("PLUMBLINE_S3_ACCESS_KEY", "") or None,
            "secret_key": PLUMBLINE_S3_SECRET_KEY or None,
            # Servers of one's own seldom have a name for each bucket.
            "addressing_style": "path" if PLUMBLINE_S3_ENDPOINT else "auto",
        },
    }
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "leaderboard.web.stylesheet.Finder",
    "leaderboard.web.plotly_script.Finder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
]
STATIC_ROOT = PLUMBLINE_HOME / "static"
WHITENOISE_USE_FINDERS = DEBUG

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
USE_I18N = False
# In the administration; the site itself writes times in `templatetags/figures.py`.
DATETIME_FORMAT = r"j M Y H:i \U\T\C"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
# What browsers remember for a year, of other sites under the same name too, is hard to take back.
SECURE_HSTS_SECONDS = env.integer("PLUMBLINE_HSTS_SECONDS", 31_536_000) if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS and env.boolean("PLUMBLINE_HSTS_SUBDOMAINS")
SECURE_HSTS_PRELOAD = HTTPS and env.boolean("PLUMBLINE_HSTS_PRELOAD")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
# Both bind more than this site, so they are the operator's choice and no fault where they are off.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
X_FRAME_OPTIONS = "DENY"

# What is nobody's business is left out of every line.
LOGGING = logs.configuration(
    PLUMBLINE_LOG,
    (
        *(
            SECRET_KEY,
            *SECRET_KEY_FALLBACKS,
            PLUMBLINE_S3_SECRET_KEY,
            HF_TOKEN,
            PLUMBLINE_METRICS_TOKEN,
            PLUMBLINE_OIDC_CLIENT_SECRET,
        ),
        urlsplit(PLUMBLINE_MAIL_URL).password or "",
        str(DATABASES["default"].get("PASSWORD", "")),
        urlsplit(PLUMBLINE_BROKER_URL).password or "",
        urlsplit(PLUMBLINE_CACHE_URL).password or "",
    ),
)
# Each request is a line of its own where machines read them; people have the lines of errors.
if PLUMBLINE_LOG == logs.JSON:
    MIDDLEWARE.insert(
        MIDDLEWARE.index("leaderboard.health.time_requests"),
        "leaderboard.web.request_log.LogRequests",
    )
DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False
DJANGO_STRUCTLOG_USER_ID_FIELD = ""
DJANGO_STRUCTLOG_STATUS_START_LOG_LEVEL = logging.DEBUG
DJANGO_STRUCTLOG_STATUS_4XX_LOG_LEVEL = logging.INFO
