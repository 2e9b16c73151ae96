"""Workspace files: created by getUploadURLExternal, filled by the upload, shared by completeUploadExternal."""

import mimetypes
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal


@dataclass
class File:
    id: str
    name: str
    length: int
    user: str
    created: int
    title: str = ""
    alt: str = ""  # alt text
    content: bytes | None = None
    ticket: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    channels: list[str] = field(default_factory=list)

    @property
    def mimetype(self) -> str:
        if self.name.endswith((".log", ".out", ".err")):
            return "text/plain"
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"

    def wire(self, origin: str) -> JSON:
        private = f"{origin}/files-pri/{self.id}/{self.name}"
        kind = self.name.rpartition(".")[2] if "." in self.name else "text"
        wire: JSON = {
            "id": self.id,
            "created": self.created,
            "timestamp": self.created,
            "name": self.name,
            "title": self.title or self.name,
            "mimetype": self.mimetype,
            "filetype": kind,
            "pretty_type": kind.upper(),
            "user": self.user,
            "editable": False,
            "size": len(self.content or b""),
            "mode": "hosted",
            "is_external": False,
            "is_public": True,
            "url_private": private,
            "url_private_download": f"{private}?download=1",
            "permalink": f"{origin}/files/{self.user}/{self.id}/{self.name}",
            "channels": list(self.channels),
        }
        if self.alt:
            wire["alt_txt"] = self.alt
        return wire


class FileStore:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.origin = ""
        self._clock = clock
        self._files: dict[str, File] = {}

    def create_pending(self, user: str, name: str, length: int) -> File:
        file = File("F" + secrets.token_hex(5).upper(), name.replace("/", "_"), length, user, int(self._clock()))
        self._files[file.id] = file
        return file

    def add(self, user: str, name: str, content: bytes) -> File:
        file = self.create_pending(user, name, len(content))
        file.content = content
        return file

    def get(self, file_id: str) -> File:
        if (file := self._files.get(file_id)) is None:
            raise SlackRefusal("file_not_found")
        return file

    def list_by_user(self, user: str) -> list[File]:
        return [file for file in self._files.values() if file.user == user]

    def find_by_ticket(self, ticket: str) -> File | None:
        """Return the file that waits for the upload with this ticket."""
        return next((file for file in self._files.values() if file.ticket == ticket and file.content is None), None)

    def wire(self, file: File) -> JSON:
        return file.wire(self.origin)
