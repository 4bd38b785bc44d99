# SPDX-License-Identifier: Apache-2.0
"""A peer of a bus over RDMA, written from docs/protocol.md alone. It uses pyverbs, without the project's code. It
behaves like a subscriber, or breaks the protocol.
"""
import contextlib
import os
import signal
import socket
import struct
import sys
import traceback

from pyverbs.addr import AH
from pyverbs.cm_enums import (RAI_PASSIVE, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_DISCONNECTED,
                              RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_MULTICAST_JOIN, RDMA_CM_EVENT_REJECTED,
                              RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_PS_TCP, RDMA_PS_UDP)
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam, UDParam
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_QPT_RC, IBV_QPT_UD, IBV_SEND_SIGNALED, IBV_WC_SUCCESS
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPCap, QPInitAttr

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "endtoend"))
import protocol_bytes as protocol

RECEIVES, CREDITS, FRAME = 20, 16, 1032
NO_NOTICES, UD, UDP = range(3)
NOTICE_MAX, GRH = 4096, 40
LANDING = 65536
COMPLETION_SECONDS, DROP_SECONDS = 30, 5


def run(main):
    """Runs a program and ends it without Python's cleanup: pyverbs may close a device before what it made of it, and
    then complains or crashes. The kernel frees everything."""
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Refused(Exception):
    """The bus refused the connection: code and text."""


class Gone(Exception):
    """The connection broke, at the named operation."""


class Late(Gone):
    """Nothing arrived for a long time."""


def event(channel, *expected):
    """The next event of the connection manager, which must be among the expected."""
    found = CMEvent(channel)
    if found.event_type not in expected:
        name, status = found.event_str(), found.event_type
        found.ack_cm_event()
        raise Gone(f"event {name} ({status})")
    return found


def late(*_):
    raise Late("nothing arrived")


@contextlib.contextmanager
def at_most(seconds):
    """Raises Late if the block takes longer."""
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except PyverbsError as error:  # interrupted, before `late` was called
        raise Late(str(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def private_data(data):
    """(number, bytes after it) in the private data of an accept or a reject."""
    mark, number = struct.unpack_from("<2sH", data)
    assert mark == b"TB", data
    return number, data[4:]


class Memory:
    """Remote memory: taking a slice is a READ."""

    def __init__(self, peer, address, rkey):
        self.peer, self.address, self.rkey = peer, address, rkey

    def __getitem__(self, part):
        data, at = b"", part.start or 0
        while at < part.stop:
            length = min(part.stop - at, LANDING)
            data += self.peer.read(self.address + at, length, self.rkey)
            at += length
        return data


class Peer(protocol.Requests):
    """A connection. `first` replaces the first hello, `second` the second. A silent connection posts receives and does
    nothing else."""

    def __init__(self, source, host, port, first=None, second=None, ticket=bytes(32), nonce=None, silent=False):
        self.source, self.where = source, (host, str(port))
        self.handshake = protocol.Handshake(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", ticket,
                                            nonce=nonce)
        self.request(silent)
        challenge = self.connect(self.handshake.first() if first is None else first)
        if challenge is None:
            sys.exit("verbs_peer: a first hello was welcomed")
        self.release()
        self.request(silent)
        self.proven = self.handshake.second(challenge) if second is None else second
        self.handshake.cookie = self.proven[24:40]
        if self.connect(self.proven) is not None:
            sys.exit("verbs_peer: a second hello was challenged")

    def request(self, silent):
        """An id with a queue pair, for one request."""
        host, port = self.where
        self.channel = CMEventChannel()
        self.id = CMID(creator=self.channel, port_space=RDMA_PS_TCP)
        self.id.resolve_addr(AddrInfo(src=self.source, dst=host, dst_service=port, port_space=RDMA_PS_TCP))
        event(self.channel, RDMA_CM_EVENT_ADDR_RESOLVED).ack_cm_event()
        self.id.resolve_route()
        event(self.channel, RDMA_CM_EVENT_ROUTE_RESOLVED).ack_cm_event()
        self.id.create_qp(QPInitAttr(qp_type=IBV_QPT_RC, cap=QPCap(max_send_wr=64, max_recv_wr=RECEIVES)))
        if silent:
            self.receives = [MR(self.id.pd, FRAME, IBV_ACCESS_LOCAL_WRITE)]
            for _ in range(RECEIVES):
                self.id.post_recv(self.receives[0])
        else:
            self.prepare()

    def prepare(self):
        self.receives = [MR(self.id.pd, FRAME, IBV_ACCESS_LOCAL_WRITE) for _ in range(RECEIVES)]
        for buffer in self.receives:
            self.id.post_recv(buffer)
        self.out = MR(self.id.pd, 4096, IBV_ACCESS_LOCAL_WRITE)
        self.landing = MR(self.id.pd, LANDING, IBV_ACCESS_LOCAL_WRITE)
        self.taken = self.said = self.sent = self.acknowledged = 0

    def close(self):
        self.id.disconnect()
        self.release()

    def release(self):
        """Releases all resources in the order that verbs require."""
        for part in [*getattr(self, "receives", ()), getattr(self, "out", None), getattr(self, "landing", None)]:
            if part:
                part.close()
        self.id.close()

    def connect(self, hello):
        """Sends a request. Returns the challenge, or None after a welcome."""
        how = ConnParam(resources=0, depth=4, retry=3, rnr_retry=0, data_len=len(hello))
        how.set_private_data(hello)
        self.id.connect(how)
        answer = event(self.channel, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED)
        number, data = private_data(answer.private_data)
        kind = answer.event_type
        answer.ack_cm_event()
        if kind == RDMA_CM_EVENT_REJECTED and number == 0:
            return data[:16]
        if kind == RDMA_CM_EVENT_REJECTED:
            self.release()
            raise Refused(number, data.rstrip(b"\0").decode("ascii"))
        assert not any(data[number:]), "padding that is not zero"
        self.handshake.check(data[:number])
        self.welcome = protocol.welcome(data[:number])
        self.page = Memory(self, self.welcome["address"], self.welcome["rkey"])
        return None

    def wait_dropped(self):
        """Waits until the bus drops the connection, perhaps during its handshake. Soft-iWARP may leave arrived data
        unread until more arrives: so this sends more."""
        while True:
            try:
                with at_most(DROP_SECONDS):
                    event(self.channel, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_REJECTED).ack_cm_event()
                return
            except Late:
                print("not dropped yet: sends more", flush=True)
                with contextlib.suppress(PyverbsError):  # dropped meanwhile
                    self.id.post_send(self.out, IBV_SEND_SIGNALED, 1)

    def completion(self):
        """The next send completion's status. Soft-iWARP may omit the last completion when a connection ends."""
        with at_most(COMPLETION_SECONDS):
            return self.id.get_send_comp().status

    # -- messages ---------------------------------------------------------------------------------

    def post(self, data):
        """SENDs these bytes."""
        self.out.write(data, len(data))
        try:
            self.id.post_send(self.out, IBV_SEND_SIGNALED, len(data))
        except PyverbsError as error:  # Soft-iWARP refuses a SEND once the connection has ended
            raise Gone(str(error)) from error
        status = self.completion()
        if status != IBV_WC_SUCCESS:
            raise Gone(f"SEND: status {status}")

    def frame(self, body=b""):
        self.post(struct.pack("<II", self.taken, 0) + body)
        self.said = self.taken

    def send(self, kind, body, request=0):
        assert self.sent - self.acknowledged < CREDITS
        self.sent += 1
        self.frame(struct.pack("<HHI", kind, 0, request) + body)

    def message(self):
        """The next message. Frames without a message only acknowledge."""
        while True:
            done = self.id.get_recv_comp()
            if done.status != IBV_WC_SUCCESS:
                return None, 0, None, None
            buffer = self.receives.pop(0)
            data = buffer.read(done.byte_len, 0)
            self.receives.append(buffer)
            self.id.post_recv(buffer)
            acknowledged, zero = struct.unpack_from("<II", data)
            assert zero == 0 and self.acknowledged <= acknowledged <= self.sent, data
            self.acknowledged = acknowledged
            if len(data) > 8:
                self.taken += 1
                if self.taken - self.said >= 8:
                    self.frame()
                reader = protocol.Reader(data[8:])
                kind, zero, request = reader.take("HHI")
                assert zero == 0
                if kind == protocol.WAKE and data[16:20] == bytes(4):
                    self.frame()  # a keep-alive; the answer makes Soft-iWARP read data that it left unread
                    continue
                return kind, request, reader, None

    def join(self, topic):
        shape, region_bytes, self.head_at_join, address, rkey, _ = self.grant(topic)
        granted = protocol.Topic(shape, region_bytes, Memory(self, address, rkey))
        granted.address, granted.rkey = address, rkey
        return granted

    def pulse(self):
        return protocol.pulse(self.page, self.welcome["bus_id"])

    # -- memory -----------------------------------------------------------------------------------

    def read(self, address, length, rkey):
        self.id.post_read(self.landing, length, address, rkey, IBV_SEND_SIGNALED)
        status = self.completion()
        if status != IBV_WC_SUCCESS:
            raise Gone(f"READ of {length} bytes: status {status}")
        return bytes(self.landing.read(length, 0))

    def write(self, address, rkey):
        """Tries to write 8 bytes. Raises Gone, as a WRITE must not be permitted."""
        self.id.post_write(self.landing, 8, address, rkey, IBV_SEND_SIGNALED)
        status = self.completion()
        if status != IBV_WC_SUCCESS:
            raise Gone(f"WRITE: status {status}")


class Group:
    """The multicast group of a topic or of the bus: receives all datagrams, and sends any."""

    def __init__(self, description, source):
        self.kind, self.source = description["notices"], source
        self.address = socket.inet_ntoa(description["group"][12:])
        assert description["group"][:12] == bytes(10) + b"\xff\xff", description["group"]
        self.port = description["port"]
        {UD: self.open_ud, UDP: self.open_udp}[self.kind]()

    def open_ud(self):
        self.channel = CMEventChannel()
        self.id = CMID(creator=self.channel, port_space=RDMA_PS_UDP)
        self.id.bind_addr(AddrInfo(src=self.source, port_space=RDMA_PS_UDP, flags=RAI_PASSIVE))
        self.id.create_qp(QPInitAttr(qp_type=IBV_QPT_UD, cap=QPCap(max_send_wr=16, max_recv_wr=256)))
        self.receives = [MR(self.id.pd, GRH + NOTICE_MAX, IBV_ACCESS_LOCAL_WRITE) for _ in range(256)]
        for buffer in self.receives:
            self.id.post_recv(buffer)
        self.out = MR(self.id.pd, NOTICE_MAX, IBV_ACCESS_LOCAL_WRITE)
        self.id.join_multicast(addr=AddrInfo(src=self.address, port_space=RDMA_PS_UDP, flags=RAI_PASSIVE))
        joined = event(self.channel, RDMA_CM_EVENT_MULTICAST_JOIN)
        where = UDParam(joined)
        self.handle = AH(self.id.pd, attr=where.ah_attr)
        self.qp_num = where.qp_num
        joined.ack_cm_event()

    def open_udp(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((self.address, self.port))
        own = socket.inet_aton(self.source)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(self.address) + own)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        self.out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.out.bind((self.source, 0))
        self.out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)

    def take(self):
        """The next datagram."""
        if self.kind == UDP:
            return self.socket.recv(NOTICE_MAX)
        done = self.id.get_recv_comp()
        buffer = self.receives.pop(0)
        data = buffer.read(done.byte_len - GRH, GRH)
        self.receives.append(buffer)
        self.id.post_recv(buffer)
        return bytes(data)

    def send(self, datagram):
        if self.kind == UDP:
            self.out.sendto(datagram, (self.address, self.port))
            return
        self.out.write(datagram, len(datagram))
        self.id.post_ud_send(self.out, self.handle, self.qp_num, IBV_SEND_SIGNALED, len(datagram))
        self.id.get_send_comp()


HEADER = "<4sBBHQQIIQ"


def notice(data):
    """The fields of a datagram, and its entries: (topic id, epoch, head, records, tag, what the tag covers)."""
    magic, version, flags, count, bus_id, sent_ns, size, sender, number = struct.unpack_from(HEADER, data)
    assert (magic, version, flags, size) == (b"TBUN", 2, 0, len(data)), data
    entries, at = [], 40
    for _ in range(count):
        topic_id, records, zero, epoch, head, tag = struct.unpack_from("<IHHQQQ", data, at)
        assert zero == 0
        tagged = (bus_id, sender, number, sent_ns, data[at:at + 24])
        at += 32
        carried = []
        for _ in range(records):
            length, = struct.unpack_from("<H", data, at + 20)
            carried.append(data[at:at + 32 + length])
            at += 32 + (length + 7) // 8 * 8
        entries.append((topic_id, epoch, head, carried, tag, tagged))
    assert at == len(data)
    return dict(bus_id=bus_id, sent_ns=sent_ns, sender=sender, number=number, entries=entries)


def notice_bytes(bus_id, sender, number, entries, key, version=2, size=None, count=None):
    """A datagram with these fields. size and count may be false."""
    body = b""
    for topic_id, epoch, head, records in entries:
        entry = struct.pack("<IHHQQ", topic_id, len(records), 0, epoch, head)
        body += entry + struct.pack("<Q", protocol.notice_tag(key, bus_id, sender, number, 0, entry))
        body += b"".join(record + bytes(-len(record) % 8) for record in records)
    return struct.pack(HEADER, b"TBUN", version, 0, len(entries) if count is None else count, bus_id, 0,
                       40 + len(body) if size is None else size, sender, number) + body
