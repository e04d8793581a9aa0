from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0031_key_court"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="so_far",
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
