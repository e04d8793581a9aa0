#!/bin/bash
# From cron, each minute: submits the workers that are missing, and nothing where none is.
set -euo pipefail
MAX_JOBS=8

set -a
source "${PLUMBLINE_ENV:-/etc/plumbline/worker.env}"
set +a

# What a worker of worker.sbatch can hold and compute. Where this fails nothing is submitted.
wanted=$(cd "${PLUMBLINE_ROOT:-/srv/plumbline}" &&
    .venv/bin/python manage.py workers-wanted --memory 79000000000 --quantisations bitsandbytes)

# How long each job of ours has run: one that waits, or began a moment ago, is not in the database yet.
minutes=$(squeue --me --name=plumbline --array --noheader --format=%M)
jobs=$(grep --count . <<<"$minutes" || true)
on_their_way=$(grep --count '^0:' <<<"$minutes" || true)

missing=$((wanted - on_their_way))
((missing <= MAX_JOBS - jobs)) || missing=$((MAX_JOBS - jobs))
((missing <= 0)) || sbatch --array="1-$missing" "$(dirname "$0")/worker.sbatch" "$@"
