from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0009_editions"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="variant", name="one_row_per_variant"),
        migrations.RenameField(model_name="variant", old_name="adapter", new_name="adapter_base"),
        migrations.AlterField(
            model_name="variant",
            name="quantisation",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="variant", name="chat", field=models.BooleanField(default=False)
        ),
        migrations.AddField(
            model_name="variant", name="weight_bytes", field=models.BigIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="worker", name="quantisations", field=models.JSONField(default=list)
        ),
        migrations.AddField(
            model_name="suiteentry",
            name="chat_run_key",
            field=models.CharField(blank=True, db_index=True, max_length=64, default=""),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="suiteentry",
            name="chat_comparability_key",
            field=models.CharField(blank=True, max_length=64, default=""),
            preserve_default=False,
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
                ),
                name="one_row_per_variant",
            ),
        ),
        migrations.AddConstraint(
            model_name="variant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(adapter_base="", adapter_base_commit=""),
                    models.Q(
                        ("adapter_base_commit__regex", "^[0-9a-f]{40}$"),
                        models.Q(("adapter_base", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="adapter_is_pinned_with_its_base",
            ),
        ),
    ]
