"""A switch for IPv4 packets between network namespaces, with the weather of bad networks.

    weather.py SEED OPTIONS NAMESPACE...

makes a TUN device eth0 in each namespace, with the address 10.82.0.N of its N-th, and prints
"ready". It ends with its standard input. The kernel's netem does the same where it exists.

OPTIONS are words NAME=NUMBER with commas between them:
    delay, jitter  milliseconds that a packet takes, and more of them at random: packets overtake
    loss, reset    packets of a million that are lost, or that reset their connection
    rate           bytes in a millisecond, of each direction; more is dropped after `queue` bytes
    stall, every   milliseconds without any packet, and the time between two of them
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
QUEUE = 256 << 10
RST = 4
LIBC = ctypes.CDLL(None, use_errno=True)


def enter(path):
    with open(path, "rb") as namespace:
        if LIBC.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns " + path)


def device(namespace, number):
    enter("/run/netns/" + namespace)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TUN | IFF_NO_PI))
    for words in (
        f"addr add 10.82.0.{number + 1}/24 dev eth0",
        "link set eth0 txqueuelen 10000 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    return tun


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def reset(packet):
    """Makes a TCP packet the end of its connection; others stay as they are."""
    head = (packet[0] & 15) * 4
    if packet[9] != 6 or packet[head + 13] & 2:
        return packet
    tcp = bytearray(packet[head : head + 20])
    tcp[12:14], tcp[16:18] = bytes([5 << 4, RST | 16]), b"\0\0"
    pseudo = packet[12:20] + struct.pack("!BBH", 0, 6, 20)
    tcp[16:18] = struct.pack("!H", checksum(pseudo + bytes(tcp)))
    ip = bytearray(packet[:head])
    ip[2:4], ip[10:12] = struct.pack("!H", head + 20), b"\0\0"
    ip[10:12] = struct.pack("!H", checksum(bytes(ip)))
    return bytes(ip + tcp)


def main():
    rng = random.Random(int(sys.argv[1]))
    options = dict.fromkeys(("delay", "jitter", "loss", "reset", "rate", "stall", "every"), 0)
    for word in filter(None, sys.argv[2].split(",")):
        name, value = word.split("=")
        options[name] = int(value)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    tuns = [device(name, number) for number, name in enumerate(sys.argv[3:])]
    LIBC.setns(home, CLONE_NEWNET)
    print("ready", flush=True)
    switch(rng, options, tuns)


def switch(rng, options, tuns):
    under_way, count = [], 0
    free_at = [0.0] * len(tuns)
    began = time.monotonic()
    while True:
        now = time.monotonic()
        wait = min(max(under_way[0][0] - now, 0), 0.1) if under_way else 0.1
        ready = select.select([0, *tuns], [], [], wait)[0]
        now = time.monotonic()
        if 0 in ready and not os.read(0, 4096):
            return
        for tun in ready:
            for _ in range(64 if tun else 0):
                try:
                    packet = os.read(tun, 65536)
                except BlockingIOError:
                    break
                to = packet[19] - 1
                if packet[0] >> 4 != 4 or packet[16:19] != b"\x0a\x52\0" or to >= len(tuns):
                    continue
                if rng.randrange(1_000_000) < options["loss"]:
                    continue
                if rng.randrange(1_000_000) < options["reset"]:
                    packet = reset(packet)
                due = now + (options["delay"] + rng.random() * options["jitter"]) / 1000
                if options["rate"]:
                    start = max(free_at[to], now)
                    if (start - now) * 1000 * options["rate"] > QUEUE:
                        continue
                    free_at[to] = start + len(packet) / 1000 / options["rate"]
                    due += free_at[to] - now
                if options["stall"]:
                    period = (options["every"] + options["stall"]) / 1000
                    phase = (due - began) % period
                    due += max(phase - options["every"] / 1000, 0) and period - phase
                count += 1
                heapq.heappush(under_way, (due, count, to, packet))
        while under_way and under_way[0][0] <= now:
            _, _, to, packet = heapq.heappop(under_way)
            try:
                os.write(tuns[to], packet)
            except BlockingIOError:
                pass


main()
