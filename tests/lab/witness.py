# SPDX-License-Identifier: Apache-2.0
"""Independent programs between two hosts (rping, mckey, ib_read_lat): they show what the devices can do."""
import re

from guests import Failed

PINGS, DATAGRAMS = 20, 50
LATENCY_SECONDS, LATENCY_TRIES = 20, 3


def wait_listening(host, address, port):
    """Waits for a listener in the kernel's list."""
    def listening():
        return re.search(rf"\bstate LISTEN\b.*(0\.0\.0\.0|{re.escape(address)}):{port}\b",
                         host.run("rdma resource show cm_id"))
    host.lab.wait_until(listening, f"a listener on {address}:{port}", every=0.1)


def read(server, client, kind):
    """rping: the server fetches the client's text by READ and returns it by WRITE. Both compare it."""
    address = server.address(kind)
    serving = server.start(f"rping -s -a {address} -p 7174 -C {PINGS} -v -V")
    wait_listening(server, address, 7174)
    asking = client.start(f"rping -c -I {client.address(kind)} -a {address} -p 7174 -C {PINGS} -v -V")
    for process in (asking, serving):
        found = len(re.findall(r"ping data: rdma-ping-\d+", process.wait()))
        if found != PINGS:
            raise Failed(process.report(f"found {found} pings, expected {PINGS}"))


def multicast(sender, receivers):
    """mckey: datagrams to a group reach every host that joined it."""
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
            raise Failed(process.report(f"did not get {DATAGRAMS} datagrams"))


def wait_joined(hosts, group):
    """Waits until the interfaces have the group's Ethernet address, which shows the join."""
    low = [int(part) for part in group.split(".")]
    ethernet = "01:00:5e:%02x:%02x:%02x" % (low[1] & 127, low[2], low[3])
    for host in hosts:
        host.lab.wait_until(lambda: ethernet in host.run(f"ip maddr show dev {host.interface('rxe')}"),
                            f"host {host.number} in {group}")


def latency(server, client, kind):
    """ib_read_lat: 64 bytes. Over RoCE by device and GID, since it cannot bind librdmacm to an address. It may hang over
    Soft-iWARP, which leaves data unread that arrives while a queue pair connects: then it is started again."""
    options = {"rxe": "-d rxe{0.number} -x 1", "siw": "-R"}[kind] + " -F -s 64 -n 200 -p 7175"
    for _ in range(LATENCY_TRIES):
        serving = server.start("exec ib_read_lat " + options.format(server))
        if kind == "siw":
            wait_listening(server, server.siw, 7175)
        else:
            server.lab.wait_until(lambda: ":7175 " in server.run("ss -Hlnt"), "the server of ib_read_lat")
        text = client.run(f"timeout {LATENCY_SECONDS} ib_read_lat {options.format(client)} {server.address(kind)}",
                          status=None)
        if re.search(r"^ *64 +200 +[\d.]+", text, re.M):
            serving.wait()
            return
        server.lab.note(f"ib_read_lat over {kind} measured nothing in {LATENCY_SECONDS} s")
        serving.kill()
    raise Failed(f"ib_read_lat over {kind} measured nothing:\n{text}")
