from django.db import migrations


class Migration(migrations.Migration):
    """Benchmarks are no longer held beside a sister."""

    dependencies = [
        ("leaderboard", "0040_no_launches"),
    ]

    operations = [
        migrations.RemoveField(model_name="suite", name="sisters"),
        migrations.DeleteModel(name="SisterGap"),
        migrations.DeleteModel(name="SisterAnalysis"),
    ]
