from django.db import migrations, models
from django.db.models import F
from django.utils import timezone


def as_they_were_asked_for(apps, _schema_editor):
    apps.get_model("leaderboard", "Run").objects.update(due=F("created"))


class Migration(migrations.Migration):
    dependencies = [("leaderboard", "0014_orders_to_workers")]

    operations = [
        migrations.AddField("run", "due", models.DateTimeField(default=timezone.now)),
        migrations.RunPython(as_they_were_asked_for, migrations.RunPython.noop),
        migrations.AlterModelOptions("run", {"ordering": ("-priority", "due", "id")}),
        migrations.RemoveIndex("run", "queue_order"),
        migrations.AddIndex(
            "run", models.Index(fields=["state", "-priority", "due"], name="queue_order")
        ),
    ]
