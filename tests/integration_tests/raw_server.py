"""A server that sends any bytes, also those that no HTTP server sends, and a certificate."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import json
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Script = Callable[["Connection"], None]

SUNNY = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "Sunny"}]}, "finishReason": "STOP"}
    ]
}


class Connection:
    """One accepted connection. `number` counts from 0."""

    def __init__(self, server: RawServer, peer: socket.socket, number: int) -> None:
        self.peer = peer
        self.number = number
        self._server = server
        self._received = b""

    def read_request(self) -> bytes | None:
        """Return the head of the next request, after reading its body; None at the end."""
        while b"\r\n\r\n" not in self._received:
            if not self._receive():
                return None
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        fields = head.decode("latin-1").lower().split("\r\n")
        length = next((int(f.split(":")[1]) for f in fields if f.startswith("content-length")), 0)
        while len(self._received) < length:
            if not self._receive():
                return None
        self._received = self._received[length:]
        self._server.requests.append(head)
        return head

    def _receive(self) -> bool:
        data = self.peer.recv(65536)
        self._received += data
        return bool(data)

    def send(self, data: bytes) -> None:
        self.peer.sendall(data)

    def drip(self, data: bytes, seconds: float = 0.05) -> None:
        """Send single bytes until the client goes away or the test ends."""
        for start in range(len(data)):
            self.send(data[start : start + 1])
            if self._server.closing.wait(seconds):
                return


class RawServer:
    """Runs the script for each connection, in a thread for each."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.closing = threading.Event()
        self.connections = 0
        self._script = script
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.address}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in list(self._open):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            number = self.connections
            self.connections += 1  # before the script runs, so that a client finds itself counted
            threading.Thread(target=self._serve, args=[peer, number], daemon=True).start()

    def _serve(self, peer: socket.socket, number: int) -> None:
        self._open.add(peer)
        with contextlib.suppress(OSError, ValueError), peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                with self._tls.wrap_socket(peer, server_side=True) as secure:
                    self._script(Connection(self, secure, number))
            else:
                self._script(Connection(self, peer, number))
        self._open.discard(peer)


def response(body: Any = SUNNY, *headers: str, is_stream: bool = False) -> bytes:
    """Return a whole HTTP response."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    if is_stream:
        text = b"data: " + text + b"\r\n\r\n"
    fields = [f"content-length: {len(text)}", *headers]
    return "\r\n".join(["HTTP/1.1 200 OK", *fields, "", ""]).encode() + text


def says(text: str) -> dict[str, Any]:
    """Return the body of a response with this text."""
    content = {"role": "model", "parts": [{"text": text}]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


def is_streaming(head: bytes) -> bool:
    return b"alt=sse" in head.split(b"\r\n", 1)[0]


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """Return a server's context for 127.0.0.1, and the file of the certificate to trust."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = dt.datetime.now(dt.UTC)
    hosts: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.DNSName("gemini.test"),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted, private = folder / "certificate.pem", folder / "key.pem"
    trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, private)
    return context, str(trusted)
