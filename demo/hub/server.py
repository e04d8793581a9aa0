"""The Hub's addresses, as far as clients read. Handlers run in threads: they touch the disk."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from demo.hub.errors import (
    HubError,
    disabled_repository,
    entry_not_found,
    gated_repository,
    moved,
    private_repository,
    read_only,
    repository_not_found,
)
from demo.hub.faults import CONTROL_PATH, Fault, FaultMiddleware, parse_faults
from demo.hub.info import DATE, repository_info
from demo.hub.repositories import KINDS, Blob, Library, Repository, Revision

TREE_PAGE = 1000
LIST_PAGE = 100


class Json(JSONResponse):
    """With all beyond ASCII escaped: what a repository says may be half a character."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()


def build_app(library: Library, faults: list[Fault]) -> FaultMiddleware:
    """The Hub as an ASGI application: the routes, behind the faults that it was told to have."""
    app = Starlette(
        routes=ROUTES,
        exception_handlers={HubError: answer_error, HTTPException: answer_error},
    )
    app.state.library = library
    failing = FaultMiddleware(app, faults)
    app.state.faults = failing
    return failing


def find_repository(request: Request, *, content: bool = False) -> Repository:
    """The repository in the request's path, if it may be seen (and, for `content`, downloaded)."""
    library: Library = request.app.state.library
    repository_id = "{org}/{name}".format_map(request.path_params)
    repository = library.find(request.path_params.get("kind", "models"), repository_id)
    marker = repository.marker
    has_token = "authorization" in request.headers
    if marker.renamed_to is not None:
        path = quote(request.scope["path"].replace(f"/{repository_id}", f"/{marker.renamed_to}", 1))
        raise moved(f"{path}?{request.url.query}" if request.url.query else path)
    if marker.disabled:
        raise disabled_repository()
    if marker.private:
        raise private_repository(has_token=has_token)
    if marker.gated and content:
        raise gated_repository(repository_id, has_token=has_token)
    return repository


def list_repositories(request: Request) -> Response:
    if (kind := request.path_params["kind"]) not in KINDS:
        raise nothing_here(request)
    query = request.query_params
    library: Library = request.app.state.library
    infos = []
    for repository in library.all(kind):
        marker = repository.marker
        hidden = marker.private or marker.disabled or marker.renamed_to
        if hidden or query.get("search", "").lower() not in repository.id.lower():
            continue
        info = repository_info(repository, repository.main(), expand=query.getlist("expand"))
        wanted = {tag for value in query.getlist("filter") for tag in value.split(",")}
        if (
            query.get("author", repository.id.split("/")[0]) == repository.id.split("/")[0]
            and wanted <= set(info.get("tags", ()))
            and query.get("pipeline_tag") in (None, info.get("pipeline_tag"))
        ):
            infos.append(info)
    return paged(request, infos, read_count(request, "limit", LIST_PAGE))


def show_info(request: Request) -> Response:
    repository = find_repository(request)
    revision = repository.revision(request.path_params.get("revision", "main"))
    query = request.query_params
    info = repository_info(
        repository, revision, blobs=is_true(query.get("blobs")), expand=query.getlist("expand")
    )
    return Json(info)


def show_tree(request: Request) -> Response:
    revision = find_repository(request).revision(request.path_params["revision"])
    folder = request.path_params.get("path", "").strip("/")
    recursive = is_true(request.query_params.get("recursive"))
    entries = tree_entries(revision, expand=is_true(request.query_params.get("expand")))
    prefix = f"{folder}/" if folder else ""
    if folder and entries.get(folder, {}).get("type") != "directory":
        raise entry_not_found(folder, revision.commit)
    below = [
        entry
        for path, entry in entries.items()
        if path.startswith(prefix) and (recursive or "/" not in path[len(prefix) :])
    ]
    return paged(request, below, TREE_PAGE)


async def show_paths(request: Request) -> Response:
    form = parse_qs((await request.body()).decode())
    return await run_in_threadpool(_paths_info, request, form)


def _paths_info(request: Request, form: dict[str, list[str]]) -> Response:
    revision = find_repository(request).revision(request.path_params["revision"])
    entries = tree_entries(revision, expand=is_true(form.get("expand", [""])[0]))
    asked = [entries.get(path.strip("/")) for path in form.get("paths", [])]
    return Json([entry for entry in asked if entry is not None])


def send_file(request: Request) -> Response:
    repository = find_repository(request, content=True)
    revision = repository.revision(request.path_params["revision"])
    path = request.path_params["path"]
    blob = revision.blobs.get(path)
    if blob is None:
        raise entry_not_found(path, revision.commit)
    headers = {"X-Repo-Commit": revision.commit, "ETag": f'"{blob.etag}"'}
    if blob.pointer_size is not None:
        headers |= {"X-Linked-Etag": f'"{blob.etag}"', "X-Linked-Size": str(blob.size)}
    return FileResponse(blob.file, headers=headers)


def show_refs(request: Request) -> Response:
    repository = find_repository(request)
    main, tags = repository.main(), repository.tags()
    return Json(
        {
            "branches": [_ref(main, "refs/heads")],
            "tags": [_ref(tag, "refs/tags") for tag in tags],
            "converts": [],
            "pullRequests": [],
        }
    )


def list_commits(request: Request) -> Response:
    repository = find_repository(request)
    revision = repository.revision(request.path_params["revision"])
    author = repository.id.split("/")[0]
    commit = {
        "id": revision.commit,
        "title": f"Content of {revision.name}",
        "message": "",
        "date": DATE,
        "authors": [{"user": author}],
    }
    return Json([commit])


def check_access(request: Request) -> Response:
    find_repository(request, content=True)
    return Json({})


def list_discussions(request: Request) -> Response:
    find_repository(request)
    return Json({"discussions": [], "count": 0, "start": 0})


def whoami(request: Request) -> Response:
    if "authorization" in request.headers:
        raise HubError(401, "Invalid credentials in Authorization header")
    raise HubError(401, "Invalid username or password.")


def show_readme(request: Request) -> Response:
    """A repository's page for people: its card as plain text."""
    repository = find_repository(request)
    revision = repository.revision(request.path_params.get("revision", "main"))
    readme = revision.blobs.get("README.md")
    text = (
        readme.file.read_text(encoding="utf-8", errors="replace")
        if readme
        else "This repository has no card.\n"
    )
    return PlainTextResponse(f"{repository.id} at {revision.commit}\n\n{text}")


def no_such_repository(_request: Request) -> Response:
    raise repository_not_found()


async def faults(request: Request) -> Response:
    middleware: FaultMiddleware = request.app.state.faults
    if request.client is None or request.client.host not in ("127.0.0.1", "::1"):
        raise HubError(403, "Faults are set from the machine that the Hub runs on.")
    if request.method == "POST":
        try:
            middleware.faults = parse_faults(await request.json())
        except ValueError as problem:
            raise HubError(400, str(problem)) from None
    return Json(middleware.listing())


def tree_entries(revision: Revision, *, expand: bool) -> dict[str, dict[str, Any]]:
    """Folders and files of a revision by path, in path order; `expand` adds the last commit."""
    entries: dict[str, dict[str, Any]] = {
        path: {"type": "directory", "path": path, "size": 0, "oid": oid}
        for path, oid in revision.folders().items()
    }
    entries |= {blob.path: _file_entry(blob) for blob in revision.blobs.values()}
    if expand:
        commit = {"id": revision.commit, "title": f"Content of {revision.name}", "date": DATE}
        entries = {path: {**entry, "lastCommit": commit} for path, entry in entries.items()}
    return dict(sorted(entries.items()))


def _file_entry(blob: Blob) -> dict[str, Any]:
    entry = {"type": "file", "path": blob.path, "size": blob.size, "oid": blob.oid}
    if blob.pointer_size is None:
        return entry
    lfs = {"oid": blob.sha256, "size": blob.size, "pointerSize": blob.pointer_size}
    return {**entry, "lfs": lfs}


def _ref(revision: Revision, kind: str) -> dict[str, str]:
    return {
        "name": revision.name,
        "ref": f"{kind}/{revision.name}",
        "targetCommit": revision.commit,
    }


def paged(request: Request, items: list[dict[str, Any]], size: int) -> Response:
    """One page of a list; the Link header names the next."""
    start = read_count(request, "cursor", 0)
    end = start + max(1, size)
    headers = {}
    if end < len(items):
        query = [(k, v) for k, v in request.query_params.multi_items() if k != "cursor"]
        following = request.url.replace(query=urlencode([*query, ("cursor", str(end))]))
        headers["Link"] = f'<{following}>; rel="next"'
    return Json(items[start:end], headers=headers)


def nothing_here(request: Request) -> HubError:
    return HubError(404, f"The local Hub has nothing at {request.url.path}")


def is_true(value: str | None) -> bool:
    return (value or "").lower() in ("true", "1")


def read_count(request: Request, name: str, default: int) -> int:
    value = request.query_params.get(name, str(default))
    if not value.isdecimal():
        raise HubError(400, f"{name}: {value!r} is not a whole number")
    return int(value)


def answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HubError):
        return error.response()
    if request.method not in ("GET", "HEAD"):
        return read_only().response()
    return nothing_here(request).response()


REPOSITORY = "/api/{kind}/{org}/{name}"
ROUTES = [
    Route(CONTROL_PATH, faults, methods=["GET", "POST"]),
    Route("/api/whoami-v2", whoami),
    Route("/api/{kind}", list_repositories),
    Route("/api/{kind}/{name}", no_such_repository),
    Route("/api/{kind}/{name}/revision/{revision:path}", no_such_repository),
    Route(REPOSITORY, show_info),
    Route(REPOSITORY + "/revision/{revision:path}", show_info),
    Route(REPOSITORY + "/tree/{revision}", show_tree),
    Route(REPOSITORY + "/tree/{revision}/{path:path}", show_tree),
    Route(REPOSITORY + "/paths-info/{revision:path}", show_paths, methods=["POST"]),
    Route(REPOSITORY + "/refs", show_refs),
    Route(REPOSITORY + "/commits/{revision:path}", list_commits),
    Route(REPOSITORY + "/auth-check", check_access),
    Route(REPOSITORY + "/discussions", list_discussions),
    Route("/{name}/resolve/{revision}/{path:path}", no_such_repository),
    Route("/{org}/{name}/resolve/{revision}/{path:path}", send_file),
    Route("/{kind}/{org}/{name}/resolve/{revision}/{path:path}", send_file),
    Route("/{org}/{name}", show_readme),
    Route("/{org}/{name}/tree/{revision:path}", show_readme),
    Route("/{kind}/{org}/{name}", show_readme),
    Route("/{kind}/{org}/{name}/tree/{revision:path}", show_readme),
]
