"""Processes of Python that begin as copies of a warm one: none imports the libraries again.

`run` and `started` take what comes after `python` on a command line. The process has its own
arguments, environment, folder and standard streams, and ends as a program does: with its exit code
or by a signal. A test of imports, of memory or of the start itself uses `subprocess` instead.

The warm process is `python -m kit.fork_server SOCKET`. It has imported all commands and has no
thread. For each order it forks a guard, which forks the process, waits for it, adds its CPU
seconds to the file SOCKET.seconds, and answers with the code.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import math
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType, SimpleNamespace
from typing import IO, Any

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 600.0  # seconds
STREAM_DP = ("-m", "stream_dp.services.commands.cli")
USERS = ("stream_dp.services.releaser.batch_jobs", "stream_dp.services.monitor.operator_facts")
WARM = ("stream_dp.services.releaser.releaser", "stream_dp.log.kafka", "stream_dp.log.sqlite")
# What commands import as soon as they draw noise, solve or judge.
LATE = (
    *("opendp.domains", "opendp.measurements", "opendp.measures", "opendp.metrics", "opendp.mod"),
    *("scipy.optimize", "scipy.sparse.csgraph", "multiprocessing.synchronize"),
)


def ended_seconds() -> float:
    """CPU seconds of the server's processes that have ended, also of those that they started."""
    if _server.cache_info().currsize:
        with suppress(FileNotFoundError), Path(f"{_server()}.seconds").open("rb") as file:
            file.seek(8 * len(_ENDED))
            _ENDED.frombytes(file.read())
    return math.fsum(_ENDED)


_ENDED = array.array("d")


class Forked:
    """A process of the server, with the methods of a `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        streams: Sequence[int],
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        server: str = "",
    ) -> None:
        self.args = [sys.executable, *map(str, arguments)]
        order = {
            "arguments": self.args[1:],
            "environment": dict(os.environ if env is None else env),
            "folder": str(Path.cwd() if cwd is None else cwd),
        }
        self.stdout: IO[Any] | None = None
        self.returncode: int | None = None
        self._answers = socket.socket(socket.AF_UNIX)
        self._answers.connect(server or _server())
        send_order(self._answers, order, streams)
        self._lines = self._answers.makefile()
        self.pid = int(json.loads(self._lines.readline())["pid"])

    def wait(self, timeout: float | None = PATIENCE) -> int:
        if self.returncode is None:
            answers = select.poll()  # select() takes no descriptor above 1,023
            answers.register(self._answers, select.POLLIN)
            if not answers.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            answer = json.loads(self._lines.readline())
            self.returncode = int(answer["code"])
            self._lines.close()
            self._answers.close()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Popen(Forked):
    """`subprocess.Popen` of a command that begins with `sys.executable`, with these arguments."""

    def __init__(
        self,
        command: Sequence[object],
        *,
        stdin: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        start_new_session: bool = False,
        server: str = "",
    ) -> None:
        assert command[0] == sys.executable
        ours: list[Any] = [None] * 3
        theirs: list[int] = []
        opened: list[int] = []
        for number, stream in enumerate((stdin, stdout, stderr)):
            if stream == subprocess.PIPE:
                ends = os.pipe()
                kept, given = ends[::-1] if number == 0 else ends
                mode = "w" if number == 0 else "r"
                ours[number] = os.fdopen(kept, mode if text else f"{mode}b")
                opened.append(given)
            elif stream == subprocess.DEVNULL:
                given = os.open(os.devnull, os.O_RDWR)
                opened.append(given)
            elif stream == subprocess.STDOUT:
                given = theirs[1]
            elif stream is None:
                given = number
            else:
                given = stream if isinstance(stream, int) else stream.fileno()
            theirs.append(given)
        super().__init__(command[1:], streams=theirs, env=env, cwd=cwd, server=server)
        self.stdin, self.stdout, self.stderr = ours
        for descriptor in opened:
            os.close(descriptor)

    def __enter__(self) -> Popen:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def communicate(self, timeout: float | None = PATIENCE) -> tuple[Any, Any]:
        """What the process still says on both streams, once it has ended."""
        if self.stdin is not None:
            self.stdin.close()
        streams = [None if s is None or s.closed else s for s in (self.stdout, self.stderr)]
        with ThreadPoolExecutor(2) as pool:
            reads = [pool.submit(stream.read) if stream else None for stream in streams]
            self.wait(timeout)
            out, error = (read.result() if read else None for read in reads)
        for stream in streams:
            if stream is not None:
                stream.close()
        return out, error


def _ran(
    command: Sequence[object],
    *,
    stdin: int | None = None,
    capture_output: bool = False,
    text: bool = False,
    timeout: float = PATIENCE,
    server: str = "",
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` of a command that begins with `sys.executable`, with these arguments."""
    pipe = subprocess.PIPE if capture_output else None
    with Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, text=text, server=server) as child:
        out, error = child.communicate(timeout)
    return subprocess.CompletedProcess(child.args, child.wait(), out, error)


def as_subprocess(server: str = "") -> Any:
    """What takes the place of the module `subprocess` in the modules of `USERS`."""
    return SimpleNamespace(
        Popen=partial(Popen, server=server),
        run=partial(_ran, server=server),
        PIPE=subprocess.PIPE,
        DEVNULL=subprocess.DEVNULL,
        TimeoutExpired=subprocess.TimeoutExpired,
    )


def started(
    *arguments: object, env: Mapping[str, str] | None = None, cwd: Path | str | None = None
) -> Forked:
    """A process whose standard output is a pipe, with this process's standard error."""
    reader, writer = os.pipe()
    with open(os.devnull) as nothing:  # noqa: PTH123
        process = Forked(arguments, streams=(nothing.fileno(), writer, 2), env=env, cwd=cwd)
    os.close(writer)
    process.stdout = os.fdopen(reader)
    return process


def run(
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    timeout: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """What a process said on both streams, once it has ended."""
    with (
        open(os.devnull) as nothing,  # noqa: PTH123
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as error,
    ):
        streams = (nothing.fileno(), out.fileno(), error.fileno())
        process = Forked(arguments, streams=streams, env=env, cwd=cwd)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), error.read())


def program(folder: Path, name: str = "stream-dp", words: Sequence[str] = STREAM_DP) -> Path:
    """Writes a program into a folder, for commands of a shell; returns the file.

    words: what comes after `python` and before the program's arguments.

    The file imports little, because a page has many commands. SIGTERM ends the process that it
    stands for.
    """
    file = folder / name
    text = _PROGRAM.format(python=sys.executable, words=list(words), server=_server())
    file.write_text(text)
    file.chmod(0o700)
    return file


_PROGRAM = """#!{python} -SI
import array, json, os, signal, socket, sys
words = [*{words!r}, *sys.argv[1:]]
order = dict(arguments=words, environment=dict(os.environ), folder=os.getcwd())
text = json.dumps(order).encode() + b"\\n"
server = socket.socket(socket.AF_UNIX)
server.connect({server!r})
streams = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))
server.sendall(text[server.sendmsg([text], [streams]):])
answers = server.makefile()
pid = json.loads(answers.readline())["pid"]
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
code = json.loads(answers.readline())["code"]
sys.exit(code if code >= 0 else 128 - code)
"""


def send_order(server: socket.socket, order: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Sends a line of JSON, with the descriptors of the three standard streams."""
    text = json.dumps(order).encode() + b"\n"
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
    sent = server.sendmsg([text], rights)
    server.sendall(text[sent:])


@cache
def _server() -> str:
    """The path of the server's socket; the server ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="stream-dp-")
    path = f"{folder.name}/server"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAM_DP_")}
    path_of_modules = os.pathsep.join(filter(None, [str(TESTS), environment.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kit.fork_server", path],
        env={**environment, "PYTHONPATH": path_of_modules, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,  # which ends with this process, however it does
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdout.close()

    def end() -> None:
        process.kill()
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    return path


# The server


def _warm() -> None:
    commands = import_module("stream_dp.services.commands")
    for module in iter_modules(commands.__path__):
        import_module(f"{commands.__name__}.{module.name}")
    for name in (*WARM, *USERS, *LATE):
        import_module(name)
    import_module("kit.planned_errors").remember()
    with suppress(ImportError):  # an extra; its threads begin with the first computation
        import_module("optax")
    # Arrow's allocator has a thread that outlives no fork and is not missed.
    names = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
    names -= {Path("/proc/self/comm").read_text().strip(), "jemalloc_bg_thd"}
    assert not names, f"a fork would lose threads: {names}"


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, rights, _, _ = connection.recvmsg(1 << 16, socket.CMSG_SPACE(3 * 4))
    streams = array.array("i")
    for _, _, packed in rights:
        streams.frombytes(packed)
    while not data.endswith(b"\n"):
        data += connection.recv(1 << 16)
    return json.loads(data), list(streams)


def serve(path: str) -> dict[str, Any]:
    """Serves until standard input ends. Returns in a forked process, with what that is to do."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for guards
    while True:
        if 0 in select.select([listener, 0], [], [])[0]:
            os._exit(0)
        connection, _ = listener.accept()
        order, streams = _received(connection)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            break
        connection.close()
        for stream in streams:
            os.close(stream)
    child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        _guard(connection, child)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return order


def _guard(connection: socket.socket, child: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection.sendall(json.dumps({"pid": child}).encode() + b"\n")
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    seconds = array.array("d", [used.ru_utime + used.ru_stime])
    try:
        with Path(f"{sys.argv[1]}.seconds").open("ab", buffering=0) as file:
            file.write(seconds.tobytes())
        connection.sendall(json.dumps({"code": code}).encode() + b"\n")
    finally:
        os._exit(0)


def become(order: Mapping[str, Any]) -> None:
    """Does what `python ARGUMENTS` does, in the order's environment and folder."""
    os.environ.clear()
    os.environ.update(order["environment"])
    if hasattr(time, "tzset"):
        time.tzset()
    os.chdir(order["folder"])
    safe = bool(os.environ.get("PYTHONSAFEPATH"))
    words = list(order["arguments"])
    while words[0] == "-P":
        safe = bool(words.pop(0))
    sys.path[:] = [path for path in sys.path if path != str(TESTS)]
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.orig_argv = [sys.executable, *words]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.modules.pop(words[1], None)
        if not safe:
            sys.path.insert(0, os.getcwd())  # noqa: PTH109
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        if not safe:
            sys.path.insert(0, "")
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(words[1], main.__dict__)  # noqa: S102
    else:
        sys.argv = words
        if not safe:
            sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")


def _end(order: Mapping[str, Any]) -> int:
    """Does the order up to the end of its threads; returns the exit code that Python gives it."""
    code: Any = 0
    try:
        become(order)
    except SystemExit as ended:
        code = ended.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


if __name__ == "__main__":
    _warm()
    gc.collect()
    gc.freeze()  # a copy does not look through what it inherits
    received = serve(sys.argv[1])
    for user in USERS:
        vars(import_module(user))["subprocess"] = as_subprocess(sys.argv[1])
    os._exit(_end(received))  # nor take it apart at its end
