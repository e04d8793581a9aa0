"""What the Hub answers when it cannot serve: clients tell errors apart by headers, not status."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse


class HubError(Exception):
    """An answer that is not the thing asked for, with the headers by which the clients name it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        # A message may quote anything that a client asked for, line breaks included.
        plain = "".join(char if " " <= char <= "~" else "?" for char in self.message)
        headers = {"X-Error-Message": plain}
        if self.code is not None:
            headers["X-Error-Code"] = self.code
        return JSONResponse(
            {"error": self.message}, status_code=self.status, headers=headers | self.headers
        )


def repository_not_found() -> HubError:
    return HubError(404, "Repository not found", code="RepoNotFound")


def private_repository(*, has_token: bool) -> HubError:
    # As on the real Hub, a private repository is not told apart from one that does not exist.
    if has_token:
        return repository_not_found()
    return HubError(401, "Invalid username or password.", code="RepoNotFound")


def disabled_repository() -> HubError:
    # The client recognises this one by its exact message alone.
    return HubError(403, "Access to this resource is disabled.")


def gated_repository(repository_id: str, *, has_token: bool) -> HubError:
    if has_token:
        message = f"Access to {repository_id} is restricted and you are not in the authorized list."
        return HubError(403, message, code="GatedRepo")
    message = f"Access to {repository_id} is restricted. You must be authenticated to access it."
    return HubError(401, message, code="GatedRepo")


def revision_not_found(revision: str) -> HubError:
    return HubError(404, f"Invalid rev id: {revision}", code="RevisionNotFound")


def entry_not_found(path: str, commit: str) -> HubError:
    # With the commit, the client remembers that this file does not exist there.
    return HubError(
        404,
        f"Entry not found: {path}",
        code="EntryNotFound",
        headers={"X-Repo-Commit": commit},
    )


def moved(location: str) -> HubError:
    return HubError(307, "Repository renamed", headers={"Location": location})


def read_only() -> HubError:
    return HubError(405, "The local Hub is read-only: put files into the folder that it serves.")
