"""A server of mail for tests: it speaks SMTP on a port of its own, and keeps what it takes."""

from __future__ import annotations

import email
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message


class MailServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.taken: list[tuple[str, Message]] = []
        """Recipient and message."""
        self.answers: dict[str, str] = {}
        """By recipient what is answered instead of “250 ok”."""

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        recipient = ""
        self._say("220 mail.test")
        while line := self.rfile.readline().decode().strip():
            verb = line.split(":")[0].upper()
            if verb == "RCPT TO":
                recipient = line.partition("<")[2].partition(">")[0]
                self._say(self.server.answers.get(recipient, "250 ok"))
            elif verb == "DATA":
                self._say("354 go on")
                self.server.taken.append((recipient, email.message_from_string(self._text())))
                self._say("250 taken")
            elif verb == "QUIT":
                return self._say("221 bye")
            else:
                self._say("250 ok")
        return None

    def _text(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
            lines.append(line)
        return "\n".join(lines)

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
