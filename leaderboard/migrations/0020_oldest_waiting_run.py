from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("leaderboard", "0019_launches")]

    operations = [
        migrations.AddIndex(
            "run",
            models.Index(fields=["created"], condition=Q(state="queued"), name="oldest_waiting"),
        ),
    ]
