"""Kubernetes: a Job for each worker, made from a manifest of the operator's.

With `queue` it is Kueue's to say when it may begin: it is made suspended, with Kueue's label.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from runners.launchers.engine import EngineTrouble, NoAnswer, Order
from runners.launchers.kinds import WrongFile

OPTIONS: Mapping[str, str] = {
    "manifest": "a file with the Job that each worker is made from",
    "namespace": "where Jobs are made",
    "queue": "of Kueue, which then says when a worker may begin",
    "gpu_resource": "what a GPU is called: nvidia.com/gpu",
    "node_selector": "labels of the nodes that a worker may run on",
}
KUEUE = "kueue.x-k8s.io/queue-name"
LABEL = "plumbline/launch"
SECONDS = 10
ALREADY_THERE = 409


class KubernetesJobs:
    OPTIONS: Mapping[str, str] = OPTIONS

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._namespace = str(options.get("namespace", "default"))
        if "manifest" not in options:
            raise WrongFile(
                "options: manifest is missing: name a Job to make workers from, "
                "such as docs/deploy/kubernetes/worker-job.yaml"
            )
        self._manifest = _read(Path(options["manifest"]))

    def launch(self, order: Order) -> str:
        job = manifest(self._manifest, order, {**self._options, **order.kind.options})
        try:
            self._batch().create_namespaced_job(self._namespace, job, _request_timeout=SECONDS)
        except (ApiException, HTTPError) as problem:
            status = getattr(problem, "status", None)
            if status != ALREADY_THERE:  # asked before, and the answer was lost
                trouble = EngineTrouble if _is_refusal(problem) else NoAnswer
                raise trouble(f"Kubernetes: {_said(problem)}") from problem
        return order.name

    def find(self, name: str) -> str | None:
        return name if self._read(name) else None

    def alive(self, handle: str) -> bool | None:
        job = self._read(handle)
        if job is None:
            return False
        over = {condition.type for condition in job.status.conditions or ()}
        return not over & {"Complete", "Failed"}

    def cancel(self, handle: str) -> None:
        try:
            self._batch().delete_namespaced_job(
                handle,
                self._namespace,
                propagation_policy="Background",
                _request_timeout=SECONDS,
            )
        except (ApiException, HTTPError) as problem:
            if getattr(problem, "status", None) != 404:
                raise EngineTrouble(f"Kubernetes: {_said(problem)}") from problem

    def _read(self, name: str) -> client.V1Job | None:
        try:
            return self._batch().read_namespaced_job(
                name, self._namespace, _request_timeout=SECONDS
            )
        except (ApiException, HTTPError) as problem:
            if getattr(problem, "status", None) == 404:
                return None
            raise EngineTrouble(f"Kubernetes: {_said(problem)}") from problem

    def _batch(self) -> client.BatchV1Api:
        """As the service account of this pod, or as the user of a kubeconfig."""
        try:
            config.load_config()
        except ConfigException as problem:
            raise EngineTrouble(f"Kubernetes: {problem}") from None
        return client.BatchV1Api()


def manifest(template: Mapping[str, Any], order: Order, options: Mapping[str, Any]) -> Any:
    """The Job of one worker. It is never tried again: its runs are, by whoever claims them."""
    job = copy.deepcopy(dict(template))
    labels = {LABEL: str(order.launch)}
    if queue := options.get("queue"):
        labels[KUEUE] = queue
        job["spec"]["suspend"] = True
    about = job.setdefault("metadata", {})
    about["name"] = order.name
    about["labels"] = {**about.get("labels", {}), **labels}
    job["spec"] |= {"backoffLimit": 0, "activeDeadlineSeconds": order.seconds}
    pod = job["spec"]["template"]["spec"]
    pod["restartPolicy"] = "Never"
    if selector := options.get("node_selector"):
        pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **selector}
    container = pod["containers"][0]
    container["command"] = ["python", *order.arguments]
    container.pop("args", None)
    if order.kind.gpus:
        limits = container.setdefault("resources", {}).setdefault("limits", {})
        limits[options.get("gpu_resource", "nvidia.com/gpu")] = order.kind.gpus
    return job


def _read(file: Path) -> dict[str, Any]:
    try:
        job = yaml.safe_load(file.read_text(encoding="utf-8"))
        if job["kind"] == "Job" and job["spec"]["template"]["spec"]["containers"]:
            return dict(job)
    except OSError as problem:
        raise WrongFile(f"options: manifest: {file}: {problem.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError):
        pass
    raise WrongFile(f"options: manifest: {file}: expected one Job with a container, as YAML")


def _is_refusal(problem: ApiException | HTTPError) -> bool:
    """Whether it made no Job for sure: it said no, or was not reached."""
    if isinstance(problem, ApiException):
        return bool(problem.status and problem.status < 500)
    return isinstance(getattr(problem, "reason", problem), NewConnectionError | ConnectTimeoutError)


def _said(problem: ApiException | HTTPError) -> str:
    if isinstance(problem, ApiException):
        return f"{problem.status} {problem.reason}: {' '.join(str(problem.body).split())[:300]}"
    return str(problem)[:300]
