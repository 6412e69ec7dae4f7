"""`kpps.otg`: a server for clients of the Open Traffic Generator interface."""

from __future__ import annotations

import collections
import inspect
import signal
import subprocess
import sys
import threading

from .commands import Command
from .errors import Error, InputError

# How long a server may take to end, in s.
END_S = 30


class OtgServer:
    """A running server, in a process of its own. The end of a `with` block ends it, and `close` does."""

    def __init__(self, words: list[str]):
        #: Addresses for `snappi.api`: `location` for JSON, and `grpc` for gRPC or None.
        self.location: str | None = None
        self.grpc: str | None = None
        #: The last lines that it has printed.
        self.messages: collections.deque[str] = collections.deque(maxlen=1000)
        has_grpc = any(word.startswith("--grpc=") for word in words)
        command = [sys.executable, "-m", "kpps", *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for line in self._process.stderr:
            self.messages.append(line.rstrip("\n"))
            _, _, address = line.strip().partition("listening on ")
            if address.startswith("http"):
                self.location = address
            elif address.endswith(" for gRPC"):
                self.grpc = address.removesuffix(" for gRPC")
            if self.location is not None and (self.grpc is not None or not has_grpc):
                break
        else:
            code = self._process.wait()
            line = self.messages[-1].removeprefix("kpps: ") if self.messages else f"the server ended with {code}"
            raise (InputError if code == 2 else Error)(line)
        # A server whose messages nobody reads would wait.
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stderr:
            self.messages.append(line.rstrip("\n"))

    def close(self) -> None:
        """Ends the server, and the flows that it sends."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> OtgServer:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def otg_doc(command: Command) -> str:
    """The docstring of `otg`."""
    about, arguments = command.doc().split("\n\n", 1)
    return "\n".join(
        [
            f"{about} Returns when the server listens, by default at a free port of this host:",
            "",
            '    with kpps.otg(port={"eth1": "packet:eth1", "eth2": "packet:eth2"}) as server:',
            "        api = snappi.api(location=server.location)",
            "",
            arguments,
        ]
    )


def with_server(command: Command):
    """The function `otg`, which returns when the server listens."""

    def otg(**named):
        named.setdefault("listen", "127.0.0.1:0")
        words = command.words((), named)
        return OtgServer([word for word in words[1:] if word != "--"])

    otg.__doc__ = otg_doc(command)
    parameters = [it for it in command.signature().parameters.values() if it.name != "progress"]
    otg.__signature__ = inspect.Signature(parameters)
    otg.__module__, otg.__qualname__ = "kpps", "otg"
    return otg
