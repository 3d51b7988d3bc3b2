"""What ctx has besides: directories, paths, modules, validate_parameters."""

import os
import sys


def import_module(setup, name):
    import importlib
    import importlib.util

    if not name.startswith("."):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name is None or name.split(".")[0] != e.name.split(".")[0]:
                raise
            raise ModuleNotFoundError("the module %s is not installed for the tool %s" % (name, setup["name"]), name=name) from e
    base = setup.get("code") or setup["dir"]
    path = os.path.normpath(os.path.join(base, name))
    if os.path.isdir(path):
        path = os.path.join(path, "__init__.py")
    elif not path.endswith(".py"):
        path += ".py"
    key = "toolyard_local:" + path
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, path)
    if spec is None or not os.path.exists(path):
        raise ModuleNotFoundError("no file %s in the folder of the tool %s" % (name, setup["name"]), name=name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(key, None)
        raise
    return module


def resolve_path(ctx, setup, path):
    allowed = ctx.get_allowed_directories()
    if path is None or path == "":
        return allowed[0] if allowed else setup["dir"]
    given = os.fspath(path)
    if "\0" in given:
        raise ValueError("a path with a NUL character: %r" % given)
    mine = allowed + [setup["dir"]] + ([setup["code"]] if setup.get("code") else [])
    expanded = expand(setup, given)
    if os.path.isabs(expanded):
        full = os.path.normpath(expanded)
    else:
        found = [f for f in (os.path.normpath(os.path.join(d, expanded)) for d in mine) if within(f, mine)]
        full = next((f for f in found if os.path.lexists(f)), found[0] if found else None)
    if full is None or not within(full, mine) or not within(os.path.realpath(full), [os.path.realpath(d) for d in mine]):
        error = PermissionError("outside of what the tool may use (\u8def\u5f84\u8d8a\u6743): %s is not in the allowed directories [%s]" % (given, ", ".join(allowed)))
        error.code = "EACCES"
        raise error
    return full


def expand(setup, path):
    home = setup.get("userHome")
    if home and (path == "~" or path.startswith("~/")):
        path = os.path.normpath(home + path[1:])
    for h in (home, os.path.expanduser("~")):  # tools put in either of them for ~
        if not h or not setup.get("home"):
            continue
        old = os.path.join(h, ".prompt-manager")
        if path == old or path.startswith(old + "/"):
            return setup["home"] + path[len(old):]
    return path


def within(path, directories):
    return any(path == d or path.startswith(d.rstrip("/") + "/") for d in directories)


def get_allowed_directories(ctx):
    return list(ctx._tool._setup["directories"])


def initialize_filesystem(ctx):
    """Does nothing; tools of elsewhere call it."""


def resolve(ctx, path=None):
    """The absolute path of what may be used, or PermissionError."""
    return resolve_path(ctx, ctx._tool._setup, path)


def require_tool_module(ctx, name):
    """Imports a module that was installed for the tool, or a file of its folder
    ("./x.py")."""
    return import_module(ctx._tool._setup, name)


def validate_parameters(ctx, params, schema=None):
    if schema is None:
        f = getattr(ctx._tool._tool, "get_schema", None)
        schema = (f() or {}).get("parameters") if callable(f) else None
    return part("validate").validate(params, schema)


HELPERS = {
    "get_allowed_directories": get_allowed_directories,
    "initialize_filesystem": initialize_filesystem,
    "resolve_path": resolve,
    "resolve_prompt_manager_path": resolve,
    "require_tool_module": require_tool_module,
    "import_tool_module": require_tool_module,
    "validate_parameters": validate_parameters,
}
