"""Runs inside of a worker: loads one module, forks, and calls the module's
functions in the fork, as the package comment of internal/worker says.

The first process never runs a call. It reads descriptor 3 and hands frames on to
the fork over a socket of their own, so that a fork that dies in the middle of
something leaves the stream of frames whole; the fork writes its answers to
descriptor 3 itself.
"""

import os

# What a program that the tool starts must not have.
CONTROL = 3
os.set_inheritable(CONTROL, False)

import gc  # noqa: E402
import json  # noqa: E402
import mmap  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from importlib.machinery import ModuleSpec, SourceFileLoader  # noqa: E402

# What a module puts in their place is its own affair.
_read, _write, _loads, _dumps = os.read, os.write, json.loads, json.dumps

# inspect, traceback, socket and asyncio take longer to load than all the rest:
# they wait until they are needed.

PROTOCOL = 1
STACK_LIMIT = 8 * 1024
LOG_LIMIT = 64 * 1024
WAKE = signal.SIGUSR2  # a frame came for a fork that runs a call


class Cancelled(BaseException):
    """Raised in a call that was cancelled. It is no Exception, so that tools do
    not swallow it."""


class ToolError(Exception):
    """What the runtime answered to a request. code is the runtime's."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Ended(Exception):
    """The other side is gone."""


def read_exactly(fd, size):
    data = _read(fd, size)
    if len(data) == size:
        return data
    parts = []
    while True:
        if not data:
            raise Ended
        parts.append(data)
        size -= len(data)
        if size == 0:
            return b"".join(parts)
        data = _read(fd, min(size, 1 << 20))


def read_frame(fd, limit):
    size = int.from_bytes(read_exactly(fd, 4), "big")
    if size > limit:
        raise Ended
    data = read_exactly(fd, size)
    head, split, body = data.partition(b"\n")
    return _loads(head), (body if split else None), data


def write_frame(fd, data):
    data = len(data).to_bytes(4, "big") + data
    written = _write(fd, data)
    if written < len(data):
        rest = memoryview(data)[written:]
        while rest:
            rest = rest[_write(fd, rest):]


def thrown(e):
    code = getattr(e, "code", None) or getattr(e, "errno", None)
    error = {"name": type(e).__name__[:200]}
    try:
        error["message"] = str(e)[:STACK_LIMIT]
    except BaseException:
        error["message"] = "an error that cannot be printed"
    if code is not None:
        error["code"] = str(code)[:200]
    import traceback

    trace = traceback.format_exception(type(e), e, e.__traceback__)
    error["stack"] = "".join(trace)[-STACK_LIMIT:]
    if isinstance(e, MemoryError):
        error["kind"] = "heap"
    return error


class Link:
    """The stream to the runtime."""

    def __init__(self, key):
        self.key = key

    def send(self, header, body=None):
        header["k"] = self.key
        data = _dumps(header, separators=(",", ":")).encode()
        if body is not None:
            data = data + b"\n" + body
        try:
            write_frame(CONTROL, data)
        except OSError:
            os._exit(0)


class API:
    """What a function gets as its second argument."""

    def __init__(self, calls, number):
        self._calls = calls
        self._id = number

    @property
    def cancelled(self):
        """Whether the call was cancelled."""
        return self._calls.cancelled

    def progress(self, done, total=0, text=""):
        if self._calls.number == self._id:
            self._calls.link.send({"t": "progress", "id": self._id, "done": float(done), "total": float(total or 0), "text": str(text)})

    def log(self, level, text, meta=None):
        body = None
        if meta is not None:
            body = _dumps(meta, default=str).encode()
            if len(body) > LOG_LIMIT:
                body = _dumps("(%d bytes left out)" % len(body)).encode()
        number = self._id if self._calls.number == self._id else 0
        self._calls.link.send({"t": "log", "id": number, "name": str(level), "text": str(text)[:LOG_LIMIT]}, body)

    def request(self, method, params=None):
        """Asks the runtime and waits for its answer."""
        return self._calls.request(self._id, method, params)


class Calls:
    """Runs in the fork: one call after the other."""

    def __init__(self, link, inbox, module, target, limit, over):
        self.link, self.inbox, self.module, self.target, self.limit = link, inbox, module, target, limit
        self.over = over  # shared with the first process
        self.number = 0  # of the call that runs
        self.cancelled = False
        self.asking = False
        self.last_request = 0
        self.takes_api = {}
        self.loop = None  # of asyncio

    def find(self, name):
        if not name:
            f = self.target if callable(self.target) else None
            return f
        for holder in (self.target, self.module):
            f = getattr(holder, name, None) if holder is not None else None
            if callable(f):
                return f
        return None

    def wake(self, *_):
        """A frame came during the call: a cancel, unless a request is waiting for
        its answer and reads for itself."""
        if not self.number or self.asking:
            return
        while select.select([self.inbox], [], [], 0)[0]:
            header, _, _ = read_frame(self.inbox, self.limit)
            if header["t"] == "cancel":
                self.cancel(header)

    def cancel(self, header):
        if header["id"] == self.number and not self.cancelled:
            self.cancelled = True
            raise Cancelled

    def request(self, number, method, params):
        self.last_request += 1
        mine = self.last_request
        self.asking = True
        try:
            self.link.send({"t": "request", "id": mine, "call": number, "name": method}, _dumps(params).encode())
            while True:
                header, body, _ = read_frame(self.inbox, self.limit)
                if header["t"] == "cancel":
                    self.cancel(header)
                if header["t"] == "response" and header["id"] == mine:
                    break
        finally:
            self.asking = False
        if "error" in header:
            raise ToolError(header["error"].get("message", ""), header["error"].get("code", ""))
        return _loads(body) if body is not None else None

    def invoke(self, f, args, api):
        key = getattr(f, "__func__", f)
        if key not in self.takes_api:
            self.takes_api[key] = takes_two(f)
        result = f(args, api) if self.takes_api[key] else f(args)
        return self.wait(result) if hasattr(result, "__await__") else result

    def wait(self, awaitable):
        """Runs a coroutine in a loop that all calls have in common: what a tool
        keeps, such as a connection, belongs to its loop."""
        import asyncio

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)

        async def main():
            return await awaitable

        before = asyncio.all_tasks(self.loop)
        try:
            return self.loop.run_until_complete(main())
        except BaseException as e:
            if not isinstance(e, Exception):
                # It was cancelled: so is all that it began.
                tasks = asyncio.all_tasks(self.loop) - before
                for task in tasks:
                    task.cancel()
                if tasks:
                    self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            raise

    def call(self, header, body):
        number = header["id"]
        self.cancelled = False
        try:
            try:
                self.number = number
                answer, value = self.outcome(header, body)
            finally:
                self.number = 0
        except Cancelled:
            answer, value = {"t": "cancelled"}, None
        except Ended:
            os._exit(0)
        except BaseException as e:
            # asyncio turns what interrupts it into its own kind.
            answer, value = ({"t": "cancelled"} if self.cancelled else {"t": "error", "error": thrown(e)}), None
        flush()
        answer["id"] = number
        self.link.send(answer, value)

    def outcome(self, header, body):
        f = self.find(header.get("name"))
        if f is None:
            what = "the module has no function " + header.get("name", "as its default")
            return {"t": "error", "error": {"name": "AttributeError", "message": what, "kind": "absent"}}, None
        value = self.invoke(f, _loads(body), API(self, header["id"]))
        try:
            # NaN and the like are no JSON.
            value = _dumps(value, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as e:
            error = thrown(e)
            error["kind"] = "value"
            return {"t": "error", "error": error}, None
        if len(value) > header["max"]:
            error = {"name": "ValueError", "message": "%d bytes, at most %d" % (len(value), header["max"]), "kind": "too_long"}
            return {"t": "error", "error": error}, None
        return {"t": "result"}, value

    def serve(self, fresh):
        signal.signal(WAKE, self.wake)
        while True:
            try:
                header, body, _ = read_frame(self.inbox, self.limit)
            except Ended:
                os._exit(0)
            if header["t"] == "call":
                self.call(header, body)
                if fresh:
                    self.over[header["id"] % len(self.over)] = 1
                    os._exit(0)
            elif header["t"] == "ping":
                self.link.send({"t": "pong", "id": header["id"]})


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def takes_two(f):
    """Whether a function can be given two arguments."""
    code = getattr(f, "__code__", None)
    if code is not None:
        own = 1 if getattr(f, "__self__", None) is not None else 0
        return code.co_argcount - own >= 2 or bool(code.co_flags & 0x04)  # *args
    import inspect

    try:
        inspect.signature(f).bind(None, None)
        return True
    except TypeError:
        return False
    except ValueError:  # it cannot be looked into
        return True


def load_tool(path, name):
    directory = os.path.dirname(path)
    for place in (os.path.join(directory, "lib"), directory):
        if place not in sys.path:
            sys.path.insert(0, place)
    return load(path, name)


def load(path, name):
    loader = SourceFileLoader(name, path)
    module = type(sys)(name)
    module.__file__, module.__loader__, module.__spec__ = path, loader, ModuleSpec(name, loader, origin=path)
    sys.modules[name] = module
    exec(loader.get_code(name), module.__dict__)
    return module


class Child:
    """One fork, as the first process sees it."""

    def __init__(self, pid, outbox):
        self.pid, self.outbox = pid, outbox
        self.call = 0  # the call that it got last


class Server:
    """The first process: reads frames and keeps a fork for the next call."""

    def __init__(self):
        self.limit = 16 << 20
        self.next = None  # gets the next call
        self.children = {}  # all that live, by pid
        self.over = mmap.mmap(-1, 4096)  # a byte for each call: its fork has sent the result

    def hello(self):
        header, body, _ = read_frame(CONTROL, self.limit)
        self.link = Link(header["k"])
        greeting = _loads(body)
        self.limit = greeting["max"]
        self.fresh = greeting.get("fresh", False)
        sys.argv = [greeting["module"]]
        try:
            if greeting["version"] != PROTOCOL:
                raise RuntimeError("protocol %s is not spoken here, only %s" % (greeting["version"], PROTOCOL))
            if "adapter" in greeting:
                # It may want to see what it is before it is loaded.
                adapter = load(greeting["adapter"], "toolyard_adapter")
                loader = getattr(adapter, "load", None)
                self.module = loader(greeting["module"], load_tool) if loader else load_tool(greeting["module"], "tool")
                self.target = adapter.adapt(self.module, greeting.get("setup"))
            else:
                self.module = load_tool(greeting["module"], "tool")
                self.target = getattr(self.module, "default", None)
            if isinstance(self.target, type):
                self.target = self.target()
        except BaseException as e:
            flush()
            error = thrown(e)
            error["kind"] = "load"
            self.link.send({"t": "error", "error": error})
            # The runtime ends this process.
            signal.pause()
        flush()

    def fork(self):
        theirs, ours = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (ours, *self.wakeup, *(c.outbox for c in self.children.values())):
                os.close(fd)
            Calls(Link(self.link.key), theirs, self.module, self.target, self.limit, self.over).serve(self.fresh)
        os.close(theirs)
        self.next = self.children[pid] = Child(pid, ours)

    def reap(self):
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            child = self.children.pop(pid, None)
            if child is None:
                continue  # what a fork left behind
            os.close(child.outbox)
            name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""
            code = 0 if name else os.WEXITSTATUS(status)
            # A fork that has done its one call just ends. Telling of it could break into
            # a frame that the next one is writing.
            if not (self.fresh and self.over[child.call % len(self.over)]):
                self.link.send({"t": "gone", "id": child.call, "code": code, "text": name})
            if child is self.next:
                self.fork()

    def pass_on(self, header, data):
        kind = header["t"]
        if self.fresh and kind == "ping":
            return self.link.send({"t": "pong", "id": header["id"]})
        if kind == "call":
            child = self.next
            child.call = header["id"]
            self.over[child.call % len(self.over)] = 0
            self.hand(child, data)
            if self.fresh:
                self.fork()  # while the call runs
            return None
        for child in list(self.children.values()):
            if child.call or not self.fresh:
                self.hand(child, data)
                if kind in ("cancel", "response"):
                    os.kill(child.pid, WAKE)
        return None

    def hand(self, child, data):
        try:
            write_frame(child.outbox, data)
        except OSError:
            pass  # its end is about to be noticed

    def serve(self):
        self.wakeup = os.pipe()
        for fd in self.wakeup:
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(WAKE, signal.SIG_IGN)  # until a fork is ready for it
        signal.set_wakeup_fd(self.wakeup[1], warn_on_full_buffer=False)
        # What is there now is shared with the forks: looking through it for garbage
        # would copy it.
        gc.collect()
        gc.freeze()
        self.fork()
        self.link.send({"t": "ready", "name": "python %d.%d.%d" % sys.version_info[:3]})
        poll = select.poll()
        poll.register(CONTROL, select.POLLIN)
        poll.register(self.wakeup[0], select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self.wakeup[0]:
                    _read(fd, 4096)
                    self.reap()
                    continue
                header, _, data = read_frame(CONTROL, self.limit)
                self.pass_on(header, data)


def main():
    os.set_blocking(CONTROL, True)
    server = Server()
    sys.stdout.reconfigure(line_buffering=True)
    try:
        server.hello()
        server.serve()
    except Ended:
        for pid in server.children:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


main()
