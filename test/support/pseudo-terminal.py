"""Runs a program on a pseudo-terminal: pseudo-terminal.py COLUMNS ROWS PROGRAM [ARGUMENT...]

Input is typed, and output of the program is forwarded. A chunk that starts with NUL is for this
script: "size COLUMNS ROWS", or "signal NUMBER" for the foreground process group. At the end, standard
error contains one line of JSON.
"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios


def main():
    columns, rows, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    pid, terminal = pty.fork()
    if pid == 0:
        # Wait until the size and the first modes are known.
        sys.stdin.readline()
        os.execvp(program[0], program)
    resize(terminal, columns, rows)
    os.write(terminal, b"\n")
    before = None
    sources = [terminal, 0]
    while terminal in sources:
        ready, _, _ = select.select(sources, [], [])
        if terminal in ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                data = b""
            if not data:
                break
            if before is None:
                # This is the echo of the line above; the program has not changed anything yet.
                before = modes(terminal)
            os.write(1, data)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                sources.remove(0)
            elif data[:1] == b"\0":
                obey(data[1:].decode().split(), terminal)
            else:
                os.write(terminal, data)
    after = modes(terminal)
    _, status = os.waitpid(pid, 0)
    result = {"code": os.waitstatus_to_exitcode(status), "restored": before == after}
    sys.stderr.write(json.dumps(result) + "\n")


def obey(words, terminal):
    if words[0] == "size":
        # The system notifies the foreground process itself.
        resize(terminal, int(words[1]), int(words[2]))
    elif words[0] == "signal":
        os.killpg(os.tcgetpgrp(terminal), int(words[1]))


def resize(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def modes(terminal):
    """Input, output, control and local modes."""
    return termios.tcgetattr(terminal)[:4]


main()
