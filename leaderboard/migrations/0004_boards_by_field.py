from django.db import migrations


def remove(apps, _schema_editor):
    """Boards of earlier development versions: their files cannot be mapped. They are built anew."""
    apps.get_model("leaderboard", "BoardSnapshot").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0003_vectors_and_snapshots"),
    ]

    operations = [
        migrations.RunPython(remove, migrations.RunPython.noop),
    ]
