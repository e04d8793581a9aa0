from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0038_waiting_since"),
    ]

    operations = [
        migrations.AddField(
            model_name="variant",
            name="active_parameters",
            field=models.BigIntegerField(null=True),
        ),
    ]
