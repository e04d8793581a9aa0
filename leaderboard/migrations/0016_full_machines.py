from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("leaderboard", "0015_turns_of_runs")]

    operations = [
        migrations.AddField("worker", "full_until", models.DateTimeField(null=True, blank=True)),
        migrations.AddField("run", "times_full", models.PositiveSmallIntegerField(default=0)),
        migrations.AddField(
            "run", "full_on", models.CharField(max_length=200, blank=True, default=""), False
        ),
        migrations.AddField("run", "full_until", models.DateTimeField(null=True, blank=True)),
    ]
