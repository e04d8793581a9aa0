from __future__ import annotations

from typing import Any

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.core.management.color import no_style
from django.db import migrations, models

BATCH_SIZE = 1_000
"""Rows that are written at a time."""


def keep(apps: Any, editor: Any) -> None:
    """Every flag, answer, departure and ruling on a key as a report with its ruling.

    Flags keep their numbers, which stand in addresses. Of a lifted flag only the words with which
    it was lifted were kept; they stand for both. Times stay as they were.
    """
    kept = _Kept(apps, editor.connection.alias)
    kept.flags()
    kept.departures()
    kept.rulings_on_keys()
    for sql in editor.connection.ops.sequence_reset_sql(
        no_style(), [kept.report, kept.answer, kept.ruling]
    ):
        editor.execute(sql)


class _Kept:
    def __init__(self, apps: Any, using: str) -> None:
        self._apps, self._using = apps, using
        self.report, self.answer, self.ruling = (
            apps.get_model("leaderboard", name) for name in ("Report", "ReportAnswer", "Ruling")
        )

    def _rows(self, name: str) -> Any:
        rows = self._apps.get_model("leaderboard", name).objects.using(self._using)
        return rows.order_by("pk").iterator(BATCH_SIZE)

    def _make(self, table: Any, rows: Any) -> None:
        table.objects.using(self._using).bulk_create(rows, batch_size=BATCH_SIZE)

    def flags(self) -> None:
        reports, rulings = [], []
        effects = {"upheld": "mark", "lifted": "mark", "withheld": "withheld"}
        for flag in self._rows("Flag"):
            reports.append(
                self.report(
                    pk=flag.pk, kind="number", hub_model_id=flag.hub_model_id, reason=flag.reason,
                    evidence=flag.evidence, by_id=flag.by_id, at=flag.at, state=flag.state,
                    closed=flag.decided,
                )
            )  # fmt: skip
            if flag.decided:
                made = self.ruling(
                    report_id=flag.pk, effect=effects.get(flag.state, "none"), words=flag.decision,
                    side="moderator", by_id=flag.decided_by_id, at=flag.decided,
                )  # fmt: skip
                if flag.state == "lifted":
                    made.undone, made.undone_by_id = flag.decided, flag.decided_by_id
                    made.undone_words = flag.decision
                rulings.append(made)
        self._make(self.report, reports)
        self._make(self.ruling, rulings)
        answers = [
            self.answer(
                pk=answer.pk, report_id=answer.flag_id, by_id=answer.by_id, side=answer.side,
                text=answer.text, at=answer.at,
            )
            for answer in self._rows("FlagAnswer")
        ]  # fmt: skip
        self._make(self.answer, answers)

    def _next(self) -> int:
        """The first free number of a report."""
        last = self.report.objects.using(self._using).order_by("pk").last()
        return last.pk + 1 if last else 1

    def departures(self) -> None:
        reports, rulings = [], []
        for number, one in enumerate(self._rows("Departure"), self._next()):
            state, closed = ("lifted", one.ended) if one.ended else ("upheld", one.at)
            reports.append(
                self.report(
                    pk=number, kind="wish", hub_model_id=one.hub_model_id, reason=one.words,
                    by_id=one.by_id, at=one.at, state=state, closed=closed,
                )
            )  # fmt: skip
            rulings.append(
                self.ruling(
                    report_id=number, effect="out", words=one.words, side=one.side,
                    by_id=one.by_id, at=one.at, undone=one.ended, undone_by_id=one.ended_by_id,
                )
            )  # fmt: skip
        self._make(self.report, reports)
        self._make(self.ruling, rulings)

    def rulings_on_keys(self) -> None:
        reports, rulings = [], []
        same = ("docs_digest", "part", "doc_id", "doc_digest", "question", "verdict", "answer")
        for number, one in enumerate(self._rows("KeyRuling"), self._next()):
            state = {"": "open", "struck": "withheld"}.get(one.ending, one.ending)
            reports.append(
                self.report(
                    pk=number, kind="key", task_id=one.task_id, reason=one.reason,
                    evidence=one.source, by_id=one.by_id, at=one.at, state=state,
                    closed=one.ended, **{name: getattr(one, name) for name in same},
                )
            )  # fmt: skip
            if one.ending == "struck":
                rulings.append(
                    self.ruling(
                        report_id=number, effect="withheld", words=one.ending_words,
                        side="moderator", by_id=one.ended_by_id, at=one.ended,
                    )
                )  # fmt: skip
        self._make(self.report, reports)
        self._make(self.ruling, rulings)


class Migration(migrations.Migration):
    """Flags, departures and rulings on keys become reports with rulings; every row is kept.

    Backwards the old tables come back empty.
    """

    dependencies = [("leaderboard", "0044_board_fault")]

    operations = [
        # Its name is the moderators' from now on, and the name of this index.
        migrations.RenameModel("Ruling", "KeyRuling"),
        migrations.AlterField(
            model_name="KeyRuling",
            name="by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="rulings",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.CreateModel(
            name="Report",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("number", "Wrong number"),
                            ("contamination", "Contamination"),
                            ("licence", "Licence"),
                            ("key", "Wrong key"),
                            ("wish", "Author’s wish"),
                        ],
                        max_length=13,
                    ),
                ),
                ("docs_digest", models.CharField(blank=True, max_length=64)),
                ("part", models.CharField(blank=True, max_length=200)),
                ("doc_id", models.PositiveIntegerField(null=True)),
                ("doc_digest", models.CharField(blank=True, max_length=64)),
                ("question", models.CharField(blank=True, max_length=160)),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("right", "Key is right"),
                            ("wrong", "Key is wrong"),
                            ("ambiguous", "Ambiguous"),
                        ],
                        max_length=10,
                    ),
                ),
                ("answer", models.CharField(blank=True, max_length=200)),
                ("reason", models.CharField(max_length=500)),
                ("evidence", models.CharField(blank=True, max_length=2000)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("upheld", "Upheld"),
                            ("dismissed", "Dismissed"),
                            ("withheld", "Its text withheld"),
                            ("lifted", "Lifted"),
                            ("changed", "Changed"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="open",
                        max_length=10,
                    ),
                ),
                ("closed", models.DateTimeField(blank=True, null=True)),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reports",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "hub_model",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reports",
                        to="leaderboard.hubmodel",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reports",
                        to="leaderboard.run",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reports",
                        to="leaderboard.taskversion",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="ReportAnswer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "side",
                    models.CharField(
                        choices=[
                            ("moderator", "moderator"),
                            ("author", "author of the model"),
                            ("raised", "reported it"),
                        ],
                        max_length=10,
                    ),
                ),
                ("text", models.CharField(max_length=2000)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="report_answers",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="answers",
                        to="leaderboard.report",
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="Ruling",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "effect",
                    models.CharField(
                        choices=[
                            ("none", "Nothing changes"),
                            ("mark", "The model is marked"),
                            ("out", "Out of the ranking"),
                            ("recall", "The result is recalled"),
                            ("withheld", "The text is withheld"),
                        ],
                        max_length=10,
                    ),
                ),
                ("words", models.CharField(max_length=250)),
                (
                    "side",
                    models.CharField(
                        choices=[("moderator", "a moderator"), ("author", "its author")],
                        default="moderator",
                        max_length=10,
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("undone", models.DateTimeField(blank=True, null=True)),
                ("undone_words", models.CharField(blank=True, max_length=250)),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="rulings",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "recall",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rulings",
                        to="leaderboard.recall",
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rulings",
                        to="leaderboard.report",
                    ),
                ),
                (
                    "undone_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.AddIndex(
            model_name="report",
            index=models.Index(
                fields=["task", "docs_digest", "part", "doc_id"], name="reports_by_question"
            ),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("reason", ""), _negated=True),
                    models.Q(
                        models.Q(("evidence", ""), _negated=True),
                        ("kind__in", ("key", "wish")),
                        _connector="OR",
                    ),
                ),
                name="report_says_why",
            ),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("doc_id__isnull", False),
                        ("hub_model", None),
                        ("kind", "key"),
                        ("task__isnull", False),
                        models.Q(("part", ""), _negated=True),
                        models.Q(("verdict", ""), _negated=True),
                    ),
                    models.Q(
                        models.Q(("kind", "key"), _negated=True),
                        ("doc_id", None),
                        ("verdict", ""),
                        models.Q(
                            models.Q(("hub_model__isnull", False), ("task", None)),
                            models.Q(("hub_model", None), ("task__isnull", False)),
                            _connector="OR",
                        ),
                    ),
                    _connector="OR",
                ),
                name="report_is_about_one_thing",
            ),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.CheckConstraint(
                condition=models.Q(("answer", ""), ("verdict", "wrong"), _connector="OR"),
                name="only_a_wrong_key_has_another",
            ),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("closed", None), ("state", "open")),
                    models.Q(models.Q(("state", "open"), _negated=True), ("closed__isnull", False)),
                    _connector="OR",
                ),
                name="closed_report_says_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "open")),
                fields=("hub_model", "by"),
                name="one_open_report_of_an_account_on_a_model",
            ),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "open")),
                fields=("task", "docs_digest", "part", "doc_id", "by"),
                name="one_standing_report_of_an_account_on_a_key",
            ),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "wish"), ("state", "upheld")),
                fields=("hub_model",),
                name="one_lasting_wish_for_a_model",
            ),
        ),
        migrations.AddConstraint(
            model_name="reportanswer",
            constraint=models.CheckConstraint(
                condition=models.Q(("text", ""), _negated=True), name="report_answer_says_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="ruling",
            constraint=models.CheckConstraint(
                condition=models.Q(("words", ""), _negated=True), name="ruling_has_words"
            ),
        ),
        migrations.AddConstraint(
            model_name="ruling",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("undone__isnull", False), ("undone_words", ""), _connector="OR"
                ),
                name="undone_says_when",
            ),
        ),
        migrations.RunPython(keep, migrations.RunPython.noop),
        migrations.DeleteModel(name="FlagAnswer"),
        migrations.DeleteModel(name="Flag"),
        migrations.DeleteModel(name="Departure"),
        migrations.DeleteModel(name="KeyRuling"),
    ]
