# SPDX-License-Identifier: Apache-2.0
"""A bus at IPv6 addresses, over RoCE and iWARP: the rows equal those over shared memory. Notices of an IPv6 group
arrive by UDP over both, as RoCE cannot join an IPv6 group."""
import bus
from control_subscriber import ControlSubscriber
from guests import Failed

TOPOLOGY = "one guest"
SECONDS = 150
GUESTS_ONLY = True
RECORDS = 50
HOSTS = {"rxe6": 2, "siw6": 3}


def addresses(lab, verb):
    """Adds an IPv6 address per kind of device to the hosts of this kernel, with rules like those for IPv4."""
    lines = []
    for number in (1, *HOSTS.values()):
        host = lab.host(number)
        for kind in HOSTS:
            address, interface = host.address(kind).strip("[]"), host.interface(kind[:3])
            table = (100 if kind == "rxe6" else 200) + number
            lines += [f"addr {verb} {address}/64 dev {interface} nodad",
                      f"rule {verb} pref 10 iif {interface} lookup local",
                      f"rule {verb} pref 20 from {address} to {address} lookup local",
                      f"rule {verb} pref 30 from {address} lookup {table}"]
            if verb == "add":  # a route goes with its address
                lines.append(f"route add {address.rpartition(':')[0]}:/64 dev {interface} src {address} table {table}")
    order = [f"rule {verb} pref 32000 lookup local", f"rule {'del' if verb == 'add' else 'add'} pref 0 lookup local"]
    lines = order + lines if verb == "add" else lines + order[::-1]
    lab.host(1).run("ip -6 -batch - <<END\n" + "\n".join(lines) + "\nEND")


def run(lab):
    publisher = lab.host(1)
    addresses(lab, "add")
    daemon = bus.pubd(publisher, bus.market(50), kinds=("shm",), group=None,
                      also=[bus.address(publisher, kind) for kind in HOSTS])
    readers = {kind: ControlSubscriber(lab.host(number), publisher, kind) for kind, number in HOSTS.items()}
    for reader in readers.values():
        reader.sees("appeared")
        reader.receives_notice()
    rows = [bus.cat(lab.host(number), publisher, kind, "quote", f"--count {RECORDS}", out=f"ipv6.{kind}")
            for kind, number in (("shm", 1), *HOSTS.items())]
    for process in rows:
        process.wait()
    for kind, reader in readers.items():
        if bus.rows(lab, f"ipv6.{kind}") != bus.rows(lab, "ipv6.shm"):
            raise Failed(f"over {kind}: the rows differ from those over shared memory")
        account = reader.end(lost=0)
        lab.note(f"over {kind}: {account['records']} records, {account['counters']['notices']} notices")
    daemon.signal("TERM")
    daemon.wait()
    addresses(lab, "del")
