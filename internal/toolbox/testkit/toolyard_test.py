"""For tests of tools. create_tool_instance makes a tool as a worker of the runtime
has it, with the runtime's own adapter, but in the process of the test;
create_mcp_server puts a server of MCP around one."""

import atexit
import contextlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

__all__ = ["create_tool_instance", "create_mcp_server"]

INHERITED = ("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "TZ", "SystemRoot", "PYTHONPATH")


def _adapter():
    module = sys.modules.get("toolyard_adapter")
    if module is None:
        module = _load(str(Path(__file__).with_name("toolyard_adapter.py")), "toolyard_adapter")
    return module


def _load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _as_text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class RuntimeFailure(Exception):
    """What the runtime answers where a test has given nothing to answer with."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class _Host:
    """What the adapter reaches the runtime by. Here it keeps what the tool says, and
    answers with what the test has given."""

    cancelled = False

    def __init__(self, ask, tools):
        self._ask, self._tools = ask, tools or {}
        self.logs, self.reports, self.questions, self.artifacts = [], [], [], []

    def log(self, level, text, meta=None):
        self.logs.append({"level": level, "text": str(text), **({} if meta is None else {"meta": meta})})

    def progress(self, done, total=0, text=""):
        self.reports.append({"done": float(done), "total": float(total or 0), "text": str(text)})

    def request(self, method, params=None):
        if method == "ask":
            self.questions.append(params)
            if self._ask is None:
                raise RuntimeFailure("NO_CHANNEL", "nobody can be asked in this test: give create_tool_instance the argument ask")
            return self._ask(params)
        if method == "call":
            f = self._tools.get(params["name"])
            if f is None:
                raise RuntimeFailure("TOOL_NOT_FOUND", "there is no tool %s in this test: give create_tool_instance the argument tools" % params["name"])
            return f(params["args"])
        if method == "artifact":
            os.stat(params["path"])
            self.artifacts.append(params)
            return {"id": "art_%016d" % len(self.artifacts), "path": params["path"]}
        raise RuntimeFailure("NOT_FOUND", "the runtime has no " + method)


def create_tool_instance(source, *, env=None, data=None, allowed_directories=None, ask=None, tools=None, name=None, dir=None):
    """Makes a tool of a module's path, or of a module that is loaded already.

    env: variables, as .env would have them.
    data: the tool's folder data: a path, or a dict, the items of its storage; without
        it an empty folder, which is removed at the end.
    allowed_directories: what get_allowed_directories gives; without it data.
    ask, tools: answer ctx.api.ask(question) and ctx.api.tools.<name>(args).
    name, dir: the tool's name and folder, where there is no path to tell.
    """
    file = Path(source).resolve() if isinstance(source, (str, os.PathLike)) else None
    folder = Path(dir).resolve() if dir else file.parent if file else Path.cwd()
    if name is None:
        name = file.name[: -len(".tool.py")] if file and file.name.endswith(".tool.py") else folder.name
    return ToolInstance(source, file, folder, name, env or {}, _data(data), allowed_directories, _Host(ask, tools))


def _data(given):
    if isinstance(given, (str, os.PathLike)):
        os.makedirs(given, exist_ok=True)
        return os.path.realpath(given)
    folder = os.path.realpath(tempfile.mkdtemp(prefix="toolyard-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if isinstance(given, dict):
        Path(folder, "storage.json").write_text(json.dumps(given), encoding="utf-8")
    return folder


class ToolInstance:
    """A tool with execute(params, mode) and the module's other functions; logs,
    progress, questions and artifacts, which are what the tool told the runtime;
    storage, as the tool sees it; and definition, what it says of itself."""

    def __init__(self, source, file, folder, name, env, data, directories, host):
        self.name, self.dir, self.data = name, str(folder), data
        self._host = host
        self._environment = {n: os.environ[n] for n in INHERITED if n in os.environ}
        self._environment.update({n: _as_text(v) for n, v in env.items() if v is not None})
        setup = {
            "name": name, "dir": str(folder), "data": data, "userHome": os.path.expanduser("~"),
            "directories": [str(Path(folder, d).resolve()) for d in directories] if directories is not None else [data],
        }
        with self._own_environment():
            module = source if file is None else self._import(file, folder)
            self._tool = _adapter().adapt(module, setup)
            self.definition = self._tool.describe(None, _Host(None, None))
        self._complete(self.definition["values"])
        self.logs, self.progress = host.logs, host.reports
        self.questions, self.artifacts = host.questions, host.artifacts

    def _import(self, file, folder):
        # A module of its own each time, so that no instance has the state of another.
        for place in (folder / "lib", folder):
            if place.is_dir() and str(place) not in sys.path:
                sys.path.insert(0, str(place))
        return _adapter().load(str(file), _load)

    def _complete(self, values):
        """Adds what the tool says itself: its runtime config, then the defaults of its
        schema."""
        config = values.get("getRuntimeConfig") or {}
        given = dict(config.get("environment") or {}) if isinstance(config, dict) else {}
        schema = values.get("getSchema") or {}
        properties = ((schema.get("environment") or {}).get("properties") or {}) if isinstance(schema, dict) else {}
        for variable, about in properties.items():
            if isinstance(about, dict) and about.get("default") is not None:
                given.setdefault(variable, about["default"])
        for variable, value in given.items():
            self._environment.setdefault(variable, _as_text(value))

    @contextlib.contextmanager
    def _own_environment(self):
        """While the tool runs, os.environ is its own."""
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self._environment)
        try:
            yield
        finally:
            self._environment = dict(os.environ)
            os.environ.clear()
            os.environ.update(before)

    def _context(self, mode="execute"):
        return _adapter().Context(self._tool, self._host, mode)

    @property
    def storage(self):
        return self._context().api.storage

    @property
    def environment(self):
        return dict(self._environment)

    def execute(self, params=None, mode="execute"):
        params = {} if params is None else json.loads(json.dumps(params))
        with self._own_environment():
            return _awaited(self._tool.execute({"params": params, "mode": mode}, self._host))

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        f = getattr(self._context(), name)
        if not callable(f):
            return f

        def call(*args, **more):
            with self._own_environment():
                return _awaited(f(*args, **more))

        return call


def _awaited(value):
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def main():
        return await value

    return asyncio.run(main())


PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


class McpError(Exception):
    """The error that a server answered."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def create_mcp_server(tool):
    """A server of MCP with one tool, made of what create_tool_instance gave."""
    if not isinstance(tool, ToolInstance):
        raise TypeError("create_mcp_server wants what create_tool_instance gave")
    return McpServer(tool)


class McpServer:
    """handle takes a message of JSON-RPC, as a dict, and gives the answer, or None for
    a notification; request gives the result, or raises McpError. Parameters are
    checked and defaults applied as before every call."""

    def __init__(self, tool):
        self._tool, self._last = tool, 0
        self._methods = {"initialize": self._initialize, "ping": lambda _: {}, "tools/list": self._list, "tools/call": self._call}

    def request(self, method, params=None):
        self._last += 1
        answer = self.handle({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        if "error" in answer:
            raise McpError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def handle(self, message):
        number = message.get("id") if isinstance(message, dict) else None

        def error(code, text):
            return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}

        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            return error(-32600, "the message is no request of JSON-RPC 2.0")
        if "id" not in message:
            return None
        method = self._methods.get(message["method"])
        if method is None:
            return error(-32601, "there is no method " + message["method"])
        try:
            return {"jsonrpc": "2.0", "id": number, "result": json.loads(json.dumps(method(message.get("params") or {})))}
        except McpError as e:
            return error(e.code, str(e))
        except Exception as e:
            return error(-32603, str(e))

    def _said(self, method):
        said = self._tool.definition["values"].get(method)
        return said if isinstance(said, dict) else {}

    def _initialize(self, params):
        version = params.get("protocolVersion")
        return {
            "protocolVersion": version if version in PROTOCOLS else PROTOCOLS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._tool.name, "version": self._said("getMetadata").get("version") or "0.0.0"},
        }

    def _list(self, _):
        metadata, schema = self._said("getMetadata"), self._said("getSchema").get("parameters") or {}
        listing = {"name": self._tool.name, "inputSchema": {"type": "object", **schema}}
        for ours, theirs in (("title", "name"), ("description", "description")):
            if metadata.get(theirs):
                listing[ours] = metadata[theirs]
        return {"tools": [listing]}

    def _call(self, params):
        if params.get("name") != self._tool.name:
            raise McpError(-32602, "there is no tool %s" % params.get("name"))
        args, schema = params.get("arguments") or {}, self._said("getSchema").get("parameters")
        if schema:
            args = _with_defaults(json.loads(json.dumps(args)), schema)
            errors = self._tool.validate_parameters(args, schema)["errors"]
            if errors:
                return _refusal({"code": "VALIDATION_ERROR", "message": "; ".join(errors)})
        try:
            return self._result(self._tool.execute(args))
        except Exception as e:
            return _refusal(self._told(getattr(e, "code", None), str(e) or type(e).__name__))

    def _result(self, value):
        if value is None:
            return {"content": [_block("The tool returned nothing.")]}
        if isinstance(value, str):
            return {"content": [_block(value)]}
        text = json.dumps(value, ensure_ascii=False)
        if not isinstance(value, dict):
            return {"content": [_block(text)]}
        if value.get("success") is False:
            said = value.get("error")
            if not isinstance(said, dict):
                said = {"message": said or value.get("message"), "code": value.get("error_code") or value.get("code")}
            return _refusal(self._told(said.get("code"), said.get("message") or "the tool says that it had no success"))
        if isinstance(value.get("content"), list):
            return value
        return {"content": [_block(text)], "structuredContent": value}

    def _told(self, code, message):
        """An error with what the tool's author foresaw of it."""
        error = {"code": "EXECUTION_ERROR" if code is None else str(code), "message": message}
        all_known = self._tool.definition["values"].get("getBusinessErrors")
        all_known = [e for e in all_known if isinstance(e, dict)] if isinstance(all_known, list) else []
        known = next((e for e in all_known if code is not None and e.get("code") == code), None)
        known = known or next((e for e in all_known if _matches(e.get("match"), message)), None)
        if known is None:
            return error
        business = {k: known.get(k) for k in ("code", "description", "solution", "retryable")}
        return {**error, "hint": known.get("solution"), "retryable": known.get("retryable"), "details": {"business": business}}


def _matches(match, message):
    if isinstance(match, str):
        return match != "" and match in message
    if not isinstance(match, dict):
        return False
    flags = 0
    for letter, flag in (("i", re.I), ("m", re.M), ("s", re.S)):
        flags |= flag if letter in (match.get("flags") or "") else 0
    return re.search(match["source"], message, flags) is not None


def _with_defaults(value, schema):
    """Fills in what is absent and has a default, in objects that are there as well."""
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    for name, about in properties.items():
        if not isinstance(about, dict):
            continue
        if name in value:
            _with_defaults(value[name], about)
        elif "default" in about:
            value[name] = json.loads(json.dumps(about["default"]))
    return value


def _block(text):
    return {"type": "text", "text": text}


def _refusal(error):
    text = "%s. %s" % (error["message"], error["hint"]) if error.get("hint") else error["message"]
    return {"isError": True, "content": [_block(text)], "structuredContent": {"error": error}}
