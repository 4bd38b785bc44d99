# SPDX-License-Identifier: Apache-2.0
"""Programs nobody here wrote, between two hosts: what they do with these devices, ours can rely on."""
import re

from guests import Failed

PINGS, DATAGRAMS = 20, 50
LATENCY_SECONDS, LATENCY_TRIES = 20, 3


def wait_listening(host, address, port):
    """librdmacm announces nothing; the kernel lists who listens."""
    def listening():
        return re.search(rf"\bstate LISTEN\b.*(0\.0\.0\.0|{re.escape(address)}):{port}\b",
                         host.run("rdma resource show cm_id"))
    host.lab.wait_until(listening, f"a listener on {address}:{port}", every=0.1)


def read(server, client, kind):
    """rping: the server takes the client's text by READ and gives it back by WRITE; both compare it."""
    address = server.address(kind)
    there = server.start(f"rping -s -a {address} -p 7174 -C {PINGS} -v -V")
    wait_listening(server, address, 7174)
    here = client.start(f"rping -c -I {client.address(kind)} -a {address} -p 7174 -C {PINGS} -v -V")
    for process in (here, there):
        found = len(re.findall(r"ping data: rdma-ping-\d+", process.wait()))
        if found != PINGS:
            raise Failed(process.words(f"found {found} pings, expected {PINGS}"))


def multicast(sender, receivers):
    """mckey: datagrams to a group reach every other host that joined it."""
    group = "239.1.1.1"
    joined = [(host, host.start(f"stdbuf -oL mckey -m {group} -b {host.rxe} -C {DATAGRAMS}")) for host in receivers]
    for _, process in joined:
        process.wait_for("join")
    wait_joined(receivers, group)
    sender.run(f"mckey -m {group} -b {sender.rxe} -s -C {DATAGRAMS}")
    for _, process in joined:
        process.wait_for("receiving data transfers")
        text = process.wait()
        if "data transfers complete" not in text:
            raise Failed(process.words(f"did not get {DATAGRAMS} datagrams"))


def wait_joined(hosts, group):
    """A join shows as the group's Ethernet address on the interface."""
    low = [int(part) for part in group.split(".")]
    ethernet = "01:00:5e:%02x:%02x:%02x" % (low[1] & 127, low[2], low[3])
    for host in hosts:
        host.lab.wait_until(lambda: ethernet in host.run(f"ip maddr show dev {host.interface('rxe')}"),
                            f"host {host.number} in {group}")


def latency(server, client, kind):
    """ib_read_lat: 64 bytes. Over RoCE by device and GID, since it cannot bind librdmacm to an address. Soft-iWARP leaves
    what arrives unread while a queue pair comes to its state, until more comes: this one would wait for that for ever."""
    options = {"rxe": "-d rxe{0.number} -x 1", "siw": "-R"}[kind] + " -F -s 64 -n 200 -p 7175"
    for _ in range(LATENCY_TRIES):
        there = server.start("exec ib_read_lat " + options.format(server))
        if kind == "siw":
            wait_listening(server, server.siw, 7175)
        else:
            server.lab.wait_until(lambda: ":7175 " in server.run("ss -Hlnt"), "its server")
        text = client.run(f"timeout {LATENCY_SECONDS} ib_read_lat {options.format(client)} {server.address(kind)}",
                          status=None)
        if re.search(r"^ *64 +200 +[\d.]+", text, re.M):
            there.wait()
            return
        server.lab.note(f"ib_read_lat over {kind} measured nothing in {LATENCY_SECONDS} s")
        there.kill()
    raise Failed(f"ib_read_lat over {kind} measured nothing:\n{text}")
