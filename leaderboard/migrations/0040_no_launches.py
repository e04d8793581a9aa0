from django.db import migrations


class Migration(migrations.Migration):
    """Engines start workers by themselves: what they were asked for is no longer written down."""

    dependencies = [
        ("leaderboard", "0039_active_parameters"),
    ]

    operations = [
        migrations.RemoveField(model_name="worker", name="launch"),
        migrations.DeleteModel(name="Launch"),
    ]
