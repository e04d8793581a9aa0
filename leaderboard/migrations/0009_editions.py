from django.db import migrations, models


def first(apps, schema_editor):  # noqa: ARG001
    """The suites that are there already, and the site, begin at 1."""
    edition = apps.get_model("leaderboard", "Edition")
    suites = apps.get_model("leaderboard", "Suite").objects.values_list("pk", flat=True)
    edition.objects.bulk_create([edition(of=of) for of in (0, *suites)])


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0008_runs_by_lease"),
    ]

    operations = [
        migrations.CreateModel(
            name="Edition",
            fields=[
                ("of", models.BigIntegerField(primary_key=True, serialize=False)),
                ("data", models.BigIntegerField(default=1)),
                ("pages", models.BigIntegerField(default=1)),
            ],
        ),
        migrations.RunPython(first, migrations.RunPython.noop),
    ]
