from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0011_backends"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="variant", name="one_row_per_variant"),
        migrations.AddField(
            model_name="variant", name="code", field=models.CharField(blank=True, max_length=500)
        ),
        migrations.AddField(
            model_name="worker", name="runs_code", field=models.BooleanField(default=False)
        ),
        migrations.AddConstraint(
            model_name="variant",
            constraint=models.UniqueConstraint(
                fields=(
                    "hub_model",
                    "commit",
                    "dtype",
                    "quantisation",
                    "adapter_base",
                    "adapter_base_commit",
                    "chat",
                    "chat_template_digest",
                    "backend",
                    "code",
                ),
                name="one_row_per_variant",
            ),
        ),
    ]
