from django.db import migrations, models


class Migration(migrations.Migration):
    """A benchmark has a number of its own for runs that gain or lose results."""

    dependencies = [
        ("leaderboard", "0041_no_sisters"),
    ]

    operations = [
        migrations.AddField(
            model_name="benchmarkedition",
            name="results",
            field=models.BigIntegerField(default=1),
        ),
    ]
