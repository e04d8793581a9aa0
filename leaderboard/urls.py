"""The addresses of the site; each leads to one view in a room of `leaderboard/`."""

from __future__ import annotations

from functools import partial

from django.contrib import admin
from django.contrib.sitemaps import views as sitemaps
from django.urls import path
from django.views.generic import RedirectView

from leaderboard import health
from leaderboard.accounts import addresses, feed, notices, own, tokens
from leaderboard.accounts import page as account
from leaderboard.backends import page as backends
from leaderboard.board import download, picture, reversal
from leaderboard.board import page as board
from leaderboard.charts import page as charts
from leaderboard.charts.against import AXES
from leaderboard.compare import download as compare_download
from leaderboard.compare import picture as compare_picture
from leaderboard.compare import view as compare
from leaderboard.corrections import download as key_reports
from leaderboard.corrections import key_page
from leaderboard.corrections import page as corrections
from leaderboard.model_pages import page as model
from leaderboard.model_pages import sharing as model_sharing
from leaderboard.queue import page as queue
from leaderboard.runs import downloads, recount
from leaderboard.runs import page as run
from leaderboard.runs import picture as run_picture
from leaderboard.snapshot import table_file
from leaderboard.styles import download as styles_download
from leaderboard.styles import page as styles
from leaderboard.submissions import api
from leaderboard.submissions import form as submit_page
from leaderboard.submissions import page as submission
from leaderboard.tasks import page as task
from leaderboard.tasks import suite_page
from leaderboard.texts import page as texts
from leaderboard.web import service

MOVED = [
    path("flags", partial(corrections.moved, kind="number")),
    path("flags/new", partial(corrections.moved, to="report-new")),
    path("flags/<int:number>", RedirectView.as_view(pattern_name="report", permanent=True)),
    path("departures", partial(corrections.moved, kind="wish")),
    path("departures/change", partial(corrections.moved, to="report-new", kind="wish")),
    path("recalls", partial(corrections.moved, kind="recall")),
    path("recalls/<int:number>", RedirectView.as_view(pattern_name="recall", permanent=True)),
    path("court", partial(corrections.moved, kind="key")),
    *(
        path(
            f"court.{form}",
            RedirectView.as_view(
                pattern_name=f"corrections-keys-{form}", permanent=True, query_string=True
            ),
        )
        for form in corrections.FILES
    ),
]
"""Addresses of before, which lead to where their pages are now."""

urlpatterns = [
    *MOVED,
    path("", board.board, name="board"),
    *table_file.addresses("board", download.file),
    path("styles", styles.styles, name="styles"),
    *table_file.addresses("styles", styles_download.file),
    path("charts", charts.charts, name="charts"),
    *(
        path(name, partial(charts.charts, kind=kind), name=name)
        for kind, name in charts.FILES.items()
        if kind not in AXES
    ),
    *(
        path(f"{name}.plotly.json", partial(charts.figure, kind=kind), name=f"{name}-plotly")
        for kind, name in charts.FILES.items()
        if kind != charts.AGREEMENT
    ),
    *(
        address
        for kind, name in charts.FILES.items()
        for address in table_file.addresses(name, partial(charts.file, kind))
    ),
    path(
        "charts-agreement.svg",
        partial(charts.picture, kind=charts.AGREEMENT),
        name="charts-agreement-svg",
    ),
    # The old address of any other picture leads to its page; nothing here links to it.
    *(
        path(f"{name}.svg", partial(charts.picture, kind=kind))
        for kind, name in charts.FILES.items()
    ),
    path("sisters", RedirectView.as_view(pattern_name="charts-agreement", permanent=True)),
    path("compare", compare.compare, name="compare"),
    *table_file.addresses("compare", compare_download.file),
    path("submit", submit_page.submit, name="submit"),
    path("submit/suggestions", submit_page.suggestions, name="submit-suggestions"),
    path("submissions/<uuid:pk>", submission.submission, name="submission"),
    path("submissions/<uuid:pk>/again", submission.again, name="submission-again"),
    path("submissions/<uuid:pk>/withdraw", submission.withdraw, name="submission-withdraw"),
    path("submissions/<uuid:pk>/vote", submission.vote, name="submission-vote"),
    path("api/submissions", api.submissions, name="api-submissions"),
    path("api/submissions/<uuid:pk>", api.submission, name="api-submission"),
    path("queue", queue.queue, name="queue"),
    path("pool", queue.pool, name="pool"),
    path("pool/orders", queue.tell, name="pool-orders"),
    path("backends", backends.backends, name="backends"),
    path("corrections", corrections.corrections, name="corrections"),
    path("corrections.atom", corrections.feed, name="corrections-feed"),
    *table_file.addresses("corrections-keys", key_reports.file),
    path("corrections/new", corrections.new, name="report-new"),
    path("corrections/reports/<int:number>", corrections.report, name="report"),
    path("corrections/reports/<int:number>/answer", corrections.answer, name="report-answer"),
    path("corrections/reports/<int:number>/rule", corrections.rule, name="report-rule"),
    path("corrections/keys/<int:number>/end", key_page.end, name="key-report-end"),
    path("corrections/recalls/<int:number>", corrections.recall, name="recall"),
    path("suites", suite_page.suites, name="suites"),
    path("suites/<str:reference>", suite_page.suite, name="suite"),
    path("suites/<str:reference>/cite.bib", suite_page.cite, name="suite-cite"),
    path("method", texts.method, name="method"),
    path("about", texts.about, name="about"),
    path("changelog", texts.changelog, name="changelog"),
    path("models/<path:repo_id>", model.model, name="model"),
    path("tasks/<path:name>/questions.parquet", task.questions_file, name="task-questions"),
    path("tasks/<path:name>/keys", key_page.keys, name="task-keys"),
    path("tasks/<path:name>/keys/question", key_page.key, name="task-key"),
    path("tasks/<path:name>/keys/report", key_page.report_key, name="task-key-report"),
    path("tasks/<path:name>", task.task, name="task"),
    path("runs/<uuid:pk>", run.run, name="run"),
    path("gpu/<int:memory>", board.gpu, name="gpu"),
    path("cells/<int:variant>/<str:column>", board.cell, name="cell"),
    path("runs/<uuid:pk>/progress", run.progress, name="run-progress"),
    path("runs/<uuid:pk>/recount", recount.recount, name="run-recount"),
    path("runs/<uuid:pk>/record.json", downloads.record, name="run-record"),
    path("runs/<uuid:pk>/samples.parquet", downloads.parquet, name="run-parquet"),
    path("runs/<uuid:pk>/<str:file>", downloads.made, name="run-file"),
    path("account", account.account, name="account"),
    path("account/submissions", own.submissions, name="account-submissions"),
    path("account/notices", notices.notices, name="account-notices"),
    path("feeds/<uuid:key>.atom", feed.feed, name="feed"),
    path("account/tokens", tokens.tokens, name="account-tokens"),
    path("account/export.json", own.export, name="account-export"),
    path("account/delete", own.delete, name="account-delete"),
    path("account/deleted", own.deleted, name="account-deleted"),
    *addresses.SIGNING_IN,
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("robots.txt", service.robots, name="robots"),
    path("sitemap.xml", sitemaps.index, service.INDEX, name="sitemap"),
    path("sitemap-<section>.xml", sitemaps.sitemap, service.SECTION, name="sitemap-section"),
    path("og/runs/<uuid:pk>.png", run_picture.picture, name="run-picture"),
    path("og/compare/pair.png", compare_picture.picture, name="compare-picture"),
    path("og/models/<path:repo_id>.png", model_sharing.picture, name="model-picture"),
    path("embed/models/<path:repo_id>", model_sharing.embed, name="model-embed"),
    *(
        path(f"badge/{look}<path:repo_id>.svg", model_sharing.badge, {"look": name}, name=of)
        for look, name, of in (
            ("models/", "light", "model-badge"),
            ("dark/models/", "dark", "model-badge-dark"),
        )
    ),
    path("og/reversal/<str:reference>.png", reversal.picture, name="reversal-picture"),
    path("og/<str:reference>.png", picture.picture, name="picture"),
    path("favicon.ico", service.favicon, name="favicon"),
    # One form to sign in by, so that one limit holds.
    path("admin/login/", RedirectView.as_view(pattern_name="login", query_string=True)),
    path("admin/", admin.site.urls),
]

handler400 = service.bad_request
handler404 = service.not_found
handler500 = service.server_error
