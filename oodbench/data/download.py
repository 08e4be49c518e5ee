"""An official file by its address: resumed, never over a connection that stops being encrypted, and compared."""

import functools
import http.client
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oodbench import digests
from oodbench.data import trust
from oodbench.data.sources import PATIENCE, Delivery, Listener, Progress, Unavailable, checksum, in_words
from oodbench.data.store import data_folder
from oodbench.errors import UserError
from oodbench.files import Holder, claim


@dataclass(frozen=True)
class Url:
    """An official file by its address, resumed where an earlier try stopped."""

    address: str
    digest: str | None = None  # md5, as the site publishes it or others who fetch the file do
    expected: str | None = None  # sha256, as the user demands; then no other digest counts

    def describe(self) -> str:
        return self.address

    def by_hand(self) -> list[str]:
        return [self.address]

    def fetch(self, folder: Path, listener: Listener) -> Delivery:
        partial = self._partial()
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(partial, error) from None

        def waiting(holder: Holder | None) -> None:
            since = f" since {holder.since()}" if holder else ""
            listener.tell(f"waiting for {holder or 'another process'}, which fetches it{since}; if it hangs, end it")

        with claim(partial.with_suffix(".lock"), wait=True, waiting=waiting):
            kind, demanded = self._demanded()
            refused = self._refused()
            if self.expected is not None and refused.exists() and checksum(refused, kind) == demanded:
                os.replace(refused, partial)
            actual = checksum(partial, kind) if demanded is not None and partial.exists() else None
            if actual is None or actual != demanded:
                try:
                    self._bring(partial, listener.progress)
                except urllib.error.HTTPError as error:
                    raise Unavailable(f"{self.address} answers {error.code} {error.reason}") from None
                except (OSError, http.client.HTTPException) as error:
                    raise Unavailable(f"{self.address} cannot be reached ({in_words(error)})") from None
                actual = checksum(partial, kind)
                if demanded is not None and actual != demanded:
                    raise self._other_file(partial, actual, demanded)
            whole = folder / self._name()
            if demanded is None:
                # One that was never proved may be why decoding fails, so the next try is not to find it.
                shutil.move(partial, whole)
            else:
                try:
                    os.link(partial, whole)
                except OSError:  # a file system without links
                    shutil.move(partial, whole)
        if kind == "md5":
            return Delivery(whole, self.address)
        why = "trusted on first use" if self.expected is None else "as demanded"
        return Delivery(
            whole, f"{self.address} (sha256 {actual}, {why})", functools.partial(self._accept, actual, listener)
        )

    def _demanded(self) -> tuple[str, str | None]:
        """Which digest the file must have: the user's, the published one, or that of what came first, if anything."""
        if self.expected is not None:
            return "sha256", self.expected
        return ("md5", self.digest) if self.digest is not None else ("sha256", trust.trusted(self.address))

    def _other_file(self, partial: Path, actual: str, demanded: str) -> Unavailable:
        """Why it is refused. Where the user may know better, it is set aside: another download may take hours."""
        if self.expected is None and self.digest is not None:
            partial.unlink()
            return Unavailable(f"{self.address} did not arrive whole (checksum differs)")
        os.replace(partial, self._refused())
        if self.expected is None:
            reason = f"and what came first had {demanded}; if you know that it is right, add --expect-sha256 {actual}"
        else:
            reason = f"and --expect-sha256 demands {demanded}; nothing is stored"
        return Unavailable(f"{self.address} brings a file of sha256 {actual}, {reason} (it lies in {self._refused()})")

    def _accept(self, sha256: str, listener: Listener) -> None:
        """From now on this is what the address has to bring."""
        if self.digest is not None or not trust.trust(self.address, sha256, instead=self.expected is not None):
            return
        if self.expected is None:
            plain = self.address.startswith("http:")
            doubt = " (over plain http, so anybody on the way may have changed it)" if plain else ""
            listener.tell(
                f"first use of {self.address}{doubt}: no digest of it is known, so sha256 {sha256} is trusted "
                f"from now on and noted in '{trust.trusted_file()}'; --expect-sha256 insists on one from the start"
            )

    def forget(self) -> None:
        """Delete what `fetch` left, so that a whole download is not lost if it cannot be decoded or stored."""
        if self.left():
            with claim(self._partial().with_suffix(".lock"), wait=True):
                for path in self.left():
                    path.unlink(missing_ok=True)

    def left(self) -> list[Path]:
        """What a download that did not end well has left."""
        return [path for path in (self._partial(), self._refused()) if path.exists()]

    def _name(self) -> str:
        return Path(urllib.parse.urlsplit(self.address).path).name

    def _partial(self) -> Path:
        tag = digests.of_text(self.address)[:8]  # two sites may use one name
        return data_folder() / "downloads" / f"{tag}-{self._name()}.part"

    def _refused(self) -> Path:
        return self._partial().with_suffix(".refused")

    def _bring(self, partial: Path, report: Progress) -> None:
        """The rest of the file; what comes is kept, however this ends."""
        have = partial.stat().st_size if partial.exists() else 0
        request = urllib.request.Request(self.address, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            answer = urllib.request.build_opener(_StaysEncrypted).open(request, timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            if have and error.code == 416:  # there is nothing after what we have
                if error.headers.get("Content-Range") in (None, f"bytes */{have}"):
                    return
                partial.unlink()
                raise Unavailable(f"{self.address} has changed since part of it came; try again") from None
            raise
        with answer:
            have = have if answer.status == 206 else 0
            length = answer.headers.get("Content-Length", "")
            whole = have + int(length) if length.isdecimal() else None
            try:
                file = open(partial, "ab" if have else "wb")  # noqa: SIM115
            except OSError as error:
                raise _cannot_write(partial, error) from None
            with file:
                while block := answer.read1(2**20):  # what has come, so that a break costs nothing
                    try:
                        file.write(block)
                        file.flush()
                    except OSError as error:
                        raise _cannot_write(partial, error) from None
                    have += len(block)
                    report(have, whole)
        if whole is not None and have < whole:
            raise Unavailable(f"{self.address} broke off after {have:,} of {whole:,} bytes; try again for the rest")


class _StaysEncrypted(urllib.request.HTTPRedirectHandler):
    """Follows no redirection from https to http, as urllib would without a word."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise Unavailable(f"{req.full_url} leads to {newurl}, which is not encrypted; that is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _cannot_write(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot write '{path}': {error.strerror}; free space or set OODBENCH_DATA")
