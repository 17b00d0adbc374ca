# SPDX-License-Identifier: GPL-2.0
"""Shared code of the examples' tests: commands, and a network namespace at the
other end of a veth pair."""

import contextlib
import ctypes
import json
import subprocess
import time

from ktap import check

CLONE_NEWNET = 0x40000000
TIMEOUT = 500  # seconds, for commands that never end


def run(*args, status=0, stdin=None, both=False):
    """Run a command, and return its output, with messages if both is set. Fails unless
        its exit status is as given."""
    args = [str(a) for a in args]
    done = subprocess.run(args, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding='utf-8', check=False, timeout=TIMEOUT,
                          **({'stdin': subprocess.DEVNULL} if stdin is None else {}))
    check(done.returncode == status, f'{" ".join(args)}: exit status {done.returncode}:',
          done.stdout, done.stderr)
    return done.stdout + done.stderr if both else done.stdout


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


def eventually(condition, what):
    """Wait until a condition holds; fail after a time limit."""
    end = time.monotonic() + 120
    while not condition():
        check(time.monotonic() < end, 'waited in vain:', what)
        time.sleep(0.05)


class Namespace:
    """A network namespace, and veth pairs from here into it."""

    def __init__(self, name):
        self.name = name
        self.links = []
        run('ip', 'netns', 'add', name)
        run('ip', '-n', name, 'link', 'set', 'lo', 'up')

    def link(self, here, there, *addresses):
        """Create a veth pair; addresses are pairs (here, there), with their prefix lengths."""
        run('ip', 'link', 'add', here, 'type', 'veth', 'peer', 'name', there,
            'netns', self.name)
        self.links.append(here)
        for mine, theirs in addresses:
            nodad = ('nodad',) if ':' in mine else ()
            run('ip', 'addr', 'add', mine, 'dev', here, *nodad)
            run('ip', '-n', self.name, 'addr', 'add', theirs, 'dev', there, *nodad)
        run('ip', 'link', 'set', here, 'up')
        run('ip', '-n', self.name, 'link', 'set', there, 'up')

    @contextlib.contextmanager
    def inside(self):
        """Sockets created in the block belong to the namespace for good."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open('/proc/self/ns/net', 'rb') as home, \
                open(f'/var/run/netns/{self.name}', 'rb') as there:
            check(libc.setns(there.fileno(), CLONE_NEWNET) == 0, 'setns')
            try:
                yield
            finally:
                check(libc.setns(home.fileno(), CLONE_NEWNET) == 0, 'setns')

    def close(self):
        for name in self.links:
            subprocess.run(['ip', 'link', 'del', name], check=False)
        subprocess.run(['ip', 'netns', 'del', self.name], check=False)
