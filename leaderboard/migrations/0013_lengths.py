from django.db import migrations, models

NAMES = ("requests", "prompts_cut", "answers", "by_length", "still_thinking", "thoughts_cut")


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0012_code_of_models"),
    ]

    operations = [
        migrations.AddField(
            model_name="result",
            name=name,
            field=models.PositiveIntegerField(null=True),
        )
        for name in NAMES
    ]
