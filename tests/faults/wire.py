# SPDX-License-Identifier: Apache-2.0
"""The protocol of the shm fabric's socket, by hand: any frame can be sent, and answers are read.

A frame is one SOCK_SEQPACKET message: kind (u32), then the body. See docs/protocol.md.
"""
import array
import hmac
import os
import socket
import struct

HELLO, WELCOME, REFUSE, MESSAGE, CHALLENGE = 1, 2, 3, 4, 5
NONCE = b"a client's nonce"
CATALOGUE, TOPICS, SCHEMA, SCHEMA_BYTES, JOIN, GRANT, REFUSED, LEAVE, ARM, WAKE = range(1, 11)
FRAME_MAX = 4 + 1024


def hello(magic=0x53554254, low=2, high=2, length=56):
    return struct.pack("<IBBH16s32s", magic, low, high, length, NONCE, bytes(32))


def second(cookie, ticket=bytes(32)):
    """The hello that answers a challenge of the bus at shm:b."""
    covered = bytes([1, 2, 2, 1]) + NONCE + cookie + b"b"
    return hello()[:24] + cookie + hmac.digest(ticket, covered, "sha256")[:16]


def request(kind, body=b"", number=1):
    return struct.pack("<HHI", kind, 0, number) + body


def text(string):
    return struct.pack("<H", len(string)) + string.encode()


def catalogue(pattern=">", after=0):
    return request(CATALOGUE, struct.pack("<I", after) + text(pattern))


class Peer:
    """A connection to shm:b in a folder."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(str(folder / "b.sock"))

    def close(self):
        self.socket.close()

    def send(self, kind, body):
        self.socket.send(struct.pack("<I", kind) + body)

    def raw(self, data, descriptors=()):
        """Sends these bytes. False: the other side has closed, or takes no descriptors (Linux 6.16)."""
        try:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            self.socket.sendmsg([data], rights if descriptors else [])
        except (BrokenPipeError, ConnectionResetError, PermissionError):
            return False
        return True

    def receive(self):
        """The next frame's kind and body, or None at the end. Descriptors are closed."""
        for _ in range(2):  # frames sent before a reset can still be received after it
            try:
                data, descriptors, _, _ = socket.recv_fds(self.socket, FRAME_MAX, 4)
                break
            except ConnectionResetError:
                data, descriptors = b"", []
        for descriptor in descriptors:
            os.close(descriptor)
        return (struct.unpack_from("<I", data)[0], data[4:]) if data else None

    def refusal(self):
        """Reads to the end. Returns the reason of the refusal, or "" if it was not refused."""
        reason = ""
        while (frame := self.receive()) is not None:
            if frame[0] == REFUSE:
                reason = frame[1][4:].decode()
        return reason

    def greet(self, ticket=bytes(32)):
        """Both hellos. Returns the answer to the second."""
        self.send(HELLO, hello())
        return self.prove(ticket)

    def prove(self, ticket=bytes(32)):
        """Answers the challenge. Returns the frame that follows, or what came instead of a challenge."""
        frame = self.receive()
        if frame is None or frame[0] != CHALLENGE:
            return frame
        self.raw(struct.pack("<I", HELLO) + second(frame[1], ticket))  # may be refused meanwhile
        return self.receive()

    def ask(self, message):
        """Sends a request. Returns the answer's type and body."""
        self.send(MESSAGE, message)
        kind, body = self.receive()
        assert kind == MESSAGE, kind
        return struct.unpack_from("<H", body)[0], body[8:]

    def first_topic(self):
        """Epoch and id of the first topic."""
        kind, body = self.ask(catalogue())
        assert kind == TOPICS, kind
        epoch, _, _, _, _, _, number = struct.unpack_from("<QQIIIII", body, 8)
        return epoch, number
