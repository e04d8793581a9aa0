# Three images. `site` serves pages and does everything but evaluate: no torch, so it stays small.
# `worker` evaluates, `worker-cuda` does on NVIDIA's GPUs. Build any with `docker build --target site .` (docs/configuration.md).
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS python
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --home-dir /var/lib/plumbline --create-home plumbline
ENV PATH=/opt/plumbline/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=leaderboard.settings \
    PLUMBLINE_HOME=/var/lib/plumbline \
    HF_HOME=/var/lib/plumbline/hf

FROM python AS site-packages
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
WORKDIR /build
COPY pyproject.toml constraints.txt ./
# What pyproject.toml lists, less what only loads and runs models.
RUN python3 -c "import re, tomllib; \
project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = project['optional-dependencies']; \
models = {'accelerate', 'datasets', 'peft', 'torch', 'transformers'}; \
engine = [one for one in project['dependencies'] if re.match('[A-Za-z0-9_-]+', one)[0] not in models]; \
print(*engine, *extras['site'], *extras['runners'], *extras['flower'], 'setuptools>=77', sep='\n')" > site.txt \
    && python3 -m venv /opt/plumbline \
    && pip install --quiet --no-cache-dir --disable-pip-version-check pip==25.3 \
    && pip install --quiet --no-cache-dir --disable-pip-version-check -c constraints.txt -r site.txt

FROM site-packages AS worker-packages
# Where pip finds other builds of torch: its own index has those for CUDA on most platforms.
ARG TORCH_INDEX=
RUN python3 -c "import tomllib; \
project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*project['dependencies'], *project['optional-dependencies']['quantised'], sep='\n')" > worker.txt \
    && pip install --quiet --no-cache-dir --disable-pip-version-check -c constraints.txt ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch \
    && pip install --quiet --no-cache-dir --disable-pip-version-check -c constraints.txt -r worker.txt

FROM python AS site
COPY --from=site-packages /opt/plumbline /opt/plumbline
WORKDIR /srv/plumbline
COPY . .
RUN pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation -e .
USER plumbline
VOLUME /var/lib/plumbline
ENV PLUMBLINE_BIND=0.0.0.0
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=40s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["python", "-m", "runners", "site"]

FROM python AS worker
COPY --from=worker-packages /opt/plumbline /opt/plumbline
WORKDIR /srv/plumbline
COPY . .
RUN pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation -e .
USER plumbline
VOLUME /var/lib/plumbline
HEALTHCHECK --interval=30s --timeout=20s --start-period=120s CMD ["python", "-m", "runners", "health"]
CMD ["python", "-m", "runners", "evaluate"]

# The driver comes from the machine, by its container toolkit; everything else of CUDA with torch.
FROM worker AS worker-cuda
# Else the worker would compute on the processor, and nobody would be told. Empty: not looked at.
ARG REQUIRE_CUDA=1
RUN test -z "${REQUIRE_CUDA}" || python -c "import sys, torch; \
torch.version.cuda or sys.exit('this torch was built without CUDA: name an index that has such builds, --build-arg TORCH_INDEX=...')"
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
