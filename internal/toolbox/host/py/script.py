"""A tool.py that is a program, and how that is found out."""

import json
import os
import select
import signal
import sys

SCRIPT_OUTPUT = 16 << 20  # bytes that a program may print as its result


def top_names(source, path):
    """The names that a module's own statements define; None if it is no Python."""
    try:
        tree = compile(source, path, "exec", 0x400, dont_inherit=True)  # PyCF_ONLY_AST
    except (SyntaxError, ValueError):
        return None
    names = set()

    def walk(statements):
        for s in statements:
            kind = type(s).__name__
            if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
                names.add(s.name)
            elif kind in ("Import", "ImportFrom"):
                names.update(a.asname or a.name for a in s.names)
            elif kind == "Assign":
                names.update(t.id for t in s.targets if type(t).__name__ == "Name")
            elif kind == "AnnAssign" and type(s.target).__name__ == "Name":
                names.add(s.target.id)
            for block in ("body", "orelse", "finalbody"):
                if kind in ("If", "Try", "With") and getattr(s, block, None):
                    walk(getattr(s, block))
            for handler in getattr(s, "handlers", ()) if kind == "Try" else ():
                walk(handler.body)

    walk(tree.body)
    if "*" in names:
        names.add("execute")
    return names


class ScriptError(Exception):
    pass


def run(script, params):
    """Runs a program in a process of its own: argv[1] is the parameters, and what
    it prints is the result."""
    sys.stdout.flush()
    sys.stderr.flush()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(script, params, out_end, err_end)
    os.close(out_end)
    os.close(err_end)
    text, tail, status = [], b"", None
    try:
        size = 0
        poll = select.poll()
        poll.register(out, select.POLLIN)
        poll.register(err, select.POLLIN)
        open_ends = 2
        while open_ends:
            for fd, _ in poll.poll():
                data = os.read(fd, 65536)
                if not data:
                    poll.unregister(fd)
                    open_ends -= 1
                elif fd == err:
                    tail = (tail + data)[-4096:]
                    os.write(2, data)
                else:
                    size += len(data)
                    if size > SCRIPT_OUTPUT:
                        raise ScriptError("the program printed more than %d bytes" % SCRIPT_OUTPUT)
                    text.append(data)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(out)
        os.close(err)
        if status is None:
            try:
                os.killpg(pid, signal.SIGKILL)
            except OSError:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        name = signal.Signals(-code).name
        raise ScriptError("the program was ended by %s%s" % (name, ": it may have been out of memory" if code == -signal.SIGKILL else ""))
    if code > 0:
        last = tail.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ScriptError("the program ended with exit code %d%s" % (code, ": " + last if last else ""))
    text = b"".join(text).decode("utf-8", "replace")
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_constant=lambda c: c)
    except ValueError:
        return text


def child(script, params, out, err):
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 4096)
        sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)
        sys.argv = [script.path, json.dumps(params, ensure_ascii=False)]
        module = type(sys)("__main__")
        module.__file__, module.__builtins__ = script.path, __builtins__
        sys.modules["__main__"] = module
        exec(compile(script.source, script.path, "exec", dont_inherit=True), module.__dict__)
        code = 0
    except SystemExit as e:
        if e.code is None:
            code = 0
        elif isinstance(e.code, int):
            code = e.code & 0xFF
        else:
            print(e.code, file=sys.stderr)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            code = code or 1
        os._exit(code)
