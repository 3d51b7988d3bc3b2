"""Makes a tool of the toolbox out of a module: what a worker of it can be asked is
describe and execute, as the package comment of internal/toolbox/host says.

It is compiled at each start of a worker, so what not every call needs is in files
of its own, whose texts stand at the end of this one as PARTS.
"""

import os
import sys

# METHODS are those that describe calls, by the names that they have elsewhere.
METHODS = {
    "get_metadata": "getMetadata",
    "get_schema": "getSchema",
    "get_dependencies": "getDependencies",
    "get_business_errors": "getBusinessErrors",
    "get_runtime_config": "getRuntimeConfig",
    "generate_manual": "generateManual",
}


class Script:
    """A file without execute, which is a program."""

    def __init__(self, path, source, described):
        self.path, self.source, self.described = path, source, described


def load(path, loader):
    """Loads the tool's module with the host's loader, unless it is a program,
    which must not run before it is called."""
    with open(path, "rb") as f:
        source = f.read()
    for start in (b"def execute(", b"async def execute(", b"class Tool:", b"class Tool("):
        if source.startswith(start) or b"\n" + start in source:
            return loader(path, "tool")
    names = part("script").top_names(source, path)
    if names is None or "execute" in names or "Tool" in names:
        return loader(path, "tool")
    for place in (os.path.join(os.path.dirname(path), "lib"), os.path.dirname(path)):
        if place not in sys.path:
            sys.path.insert(0, place)
    return Script(path, source, any(n in names for n in METHODS))


def part(name):
    """The module of a part, loaded when it is needed."""
    module = sys.modules.get("toolyard_" + name)
    if module is None:
        module = type(sys)("toolyard_" + name)
        module.METHODS, module.part = METHODS, part
        sys.modules["toolyard_" + name] = module
        exec(compile(PARTS[name], "toolyard:" + name, "exec"), module.__dict__)
    return module


def adapt(module, setup):
    return Tool(module, setup)


class Tool:
    """What the host calls."""

    def __init__(self, module, setup):
        self._module, self._setup = module, setup
        self._script = isinstance(module, Script)
        self._tool = module
        if not self._script:
            made = getattr(module, "Tool", None)
            if isinstance(made, type) and not callable(module.__dict__.get("execute")):
                self._tool = made()
        self._arguments = None
        self._storage = None

    def describe(self, args, host):
        return part("describe").describe(self)

    def execute(self, args, host):
        mode = args.get("mode", "execute")
        params = args.get("params")
        if params is None:
            params = {}
        if self._script:
            return part("script").run(self._module, params)
        ctx = Context(self, host, mode, args.get("session"))
        f = getattr(self._tool, "execute", None)
        if not callable(f):
            raise NotImplementedError("the tool %s has no function execute" % self._setup["name"])
        if self._tool is not self._module:
            try:
                self._tool.api = ctx.api
            except AttributeError:  # it has slots, or an api of its own
                pass
        if self._arguments is None:
            self._arguments = arguments(f)
        return f(*(params, ctx, mode)[: self._arguments])


def arguments(f):
    """How many of params, ctx and mode a function takes."""
    code = getattr(f, "__code__", None)
    if code is None:
        return 2
    if code.co_flags & 0x04:  # *args
        return 3
    return min(3, code.co_argcount - (1 if getattr(f, "__self__", None) is not None else 0))


class Context:
    """What execute gets as its second argument: this, and what helpers.py adds, and
    the tool's own functions."""

    def __init__(self, tool, host, mode, session=None):
        self._tool, self._host, self.mode, self.session_id = tool, host, mode, session
        setup = tool._setup
        self.tool_dir, self.tool_name, self.data_dir = setup["dir"], setup["name"], setup["data"]
        self.api = Api(tool, host)

    @property
    def cancelled(self):
        return self._host.cancelled

    def __getattr__(self, name):
        if not name.startswith("_"):
            f = getattr(self._tool._tool, name, None)
            if callable(f):
                return f
            helper = part("helpers").HELPERS.get(name)
            if helper:
                return helper.__get__(self)
        raise AttributeError("a tool's context has no " + name)


class Api:
    """What ctx.api has: this, and what reach.py adds."""

    def __init__(self, tool, host):
        self._tool, self._host, self.progress = tool, host, host.progress
        self.logger = Logger(host)

    @property
    def cancelled(self):
        """Whether the call was cancelled."""
        return self._host.cancelled

    @property
    def storage(self):
        tool = self._tool
        if tool._storage is None:
            tool._storage = part("storage").Storage(tool._setup, self.logger)
        return tool._storage

    def __getattr__(self, name):
        give = None if name.startswith("_") else part("reach").API.get(name)
        if give is None:
            raise AttributeError("a tool's api has no " + name)
        return give(self)


class Logger:
    def __init__(self, host):
        self._host = host

    def __getattr__(self, level):
        if level not in ("debug", "info", "warn", "warning", "error"):
            raise AttributeError("a logger has no " + level)

        def log(message, meta=None, **fields):
            if fields:
                meta = {**meta, **fields} if isinstance(meta, dict) else fields if meta is None else {"meta": meta, **fields}
            self._host.log(level, message, meta)

        return log


