"""Python's multiprocessing beside MPI: children of `fork` use what was sent and received."""

import multiprocessing
import os
import unittest

from mpi4py import MPI

SIZES = [8, 6000, 70_000, 3_000_000]
comm = MPI.COMM_WORLD
sent = [bytearray(size) for size in SIZES]
received = [bytearray(size) for size in SIZES]


def fill(step):
    for number, buffer in enumerate(sent):
        value = (step + comm.rank + number) % 251
        buffer[:] = bytes([value]) * len(buffer)


def exchange():
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    requests = [comm.Irecv(buffer, left, tag) for tag, buffer in enumerate(received)]
    requests += [comm.Isend(buffer, right, tag) for tag, buffer in enumerate(sent)]
    MPI.Request.Waitall(requests)
    return left


def use(number):
    """What a child does: reads both buffers, changes them, and fills new memory."""
    values = sent[number][-1], received[number][-1]
    same = all(set(each[number]) == {each[number][0]} for each in (sent, received))
    sent[number][:] = b"\xee" * SIZES[number]
    kept = [bytes(1000 + at) for at in range(2000)]
    return same and len(kept) == 2000, values


class TestFork(unittest.TestCase):
    def check(self, step, results, left):
        for number, (same, values) in enumerate(results):
            self.assertTrue(same)
            expected = [(step + rank + number) % 251 for rank in (comm.rank, left)]
            self.assertEqual(list(values), expected)
            self.assertEqual([sent[number][0], received[number][0]], expected)

    def test_pool(self):
        for step in range(3):
            fill(step)
            left = exchange()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                self.check(step, pool.map(use, range(len(SIZES))), left)
        comm.Barrier()

    def test_fork(self):
        fill(100)
        left = exchange()
        child = os.fork()
        if child == 0:
            os._exit(0 if all(use(number)[0] for number in range(len(SIZES))) else 1)
        exchange()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        values = [(True, (ours[-1], theirs[-1])) for ours, theirs in zip(sent, received)]
        self.check(100, values, left)
        comm.Barrier()


if __name__ == "__main__":
    unittest.main()
