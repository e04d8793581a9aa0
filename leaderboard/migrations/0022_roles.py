from django.db import migrations


def _all_submit(apps, _):
    """Whoever has an account could submit until now."""
    group, _ = apps.get_model("auth", "Group").objects.get_or_create(name="Submitters")
    group.user_set.add(*apps.get_model("leaderboard", "User").objects.all())


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0021_confinement_of_workers"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="user",
            options={
                "permissions": [
                    ("submit", "Submits models"),
                    ("moderate", "Judges what others submit"),
                    ("operate", "Answers for the site"),
                ],
                "verbose_name": "user",
                "verbose_name_plural": "users",
            },
        ),
        migrations.RunPython(_all_submit, migrations.RunPython.noop),
    ]
