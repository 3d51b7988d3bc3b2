"""What describe does."""

import re
import signal
import sys

METHOD_TIME = 2.0  # seconds that one method may take
MAX_FAULTS = 100
MAX_DEPTH = 64


def describe(adapted):
    values, problems = {}, []
    if adapted._script:
        return describe_script(adapted, values, problems)
    tool = adapted._tool
    module = adapted._module.__name__
    methods = []
    for name in dir(tool):
        f = getattr(tool, name, None)
        if name.startswith("_") or not callable(f):
            continue
        if name in METHODS or name == "execute" or (not isinstance(f, type) and getattr(f, "__module__", None) == module):
            methods.append(METHODS.get(name, name))
    told(tool, values, problems)
    return {"methods": methods, "values": values, "problems": problems}


def told(tool, values, problems):
    for name, common in METHODS.items():
        f = getattr(tool, name, None)
        if not callable(f):
            continue
        try:
            value = limited(f)
        except Exception as e:
            problems.append({"method": common, "message": str(e) or type(e).__name__, "threw": True})
            continue
        if value is None:
            problems.append({"method": common, "message": "it returned nothing"})
            continue

        def note(at, what):
            if len(problems) < MAX_FAULTS:
                problems.append({"method": common, "message": (at.lstrip(".") or "the result") + " " + what})

        try:
            values[common] = plain(value, "", note, [100000], [])
        except Exception as e:
            problems.append({"method": common, "message": "the result cannot be read: %s" % e})


def limited(f):
    """Calls f, which must not take long."""

    def late(*_):
        raise TimeoutError("it did not answer within %g s" % METHOD_TIME)

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, METHOD_TIME)
    try:
        value = f()
        if hasattr(value, "__await__"):
            import asyncio

            async def main():
                return await value

            value = asyncio.run(main())
        return value
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def describe_script(adapted, values, problems):
    script = adapted._module
    if script.described:
        # It says of itself what it is, so it can be imported.
        module = type(sys)("tool")
        module.__file__ = script.path
        sys.modules["tool"] = module
        try:
            limited(lambda: exec(compile(script.source, script.path, "exec", dont_inherit=True), module.__dict__))
            told(module, values, problems)
        except BaseException as e:
            problems.append({"method": "", "message": "importing it failed: %s" % (str(e) or type(e).__name__), "threw": True})
    if "getMetadata" not in values:
        import ast

        text = ast.get_docstring(ast.parse(script.source))
        if text:
            values["getMetadata"] = {"description": text}
    return {"methods": [], "values": values, "problems": problems, "script": True}


def plain(value, at, note, left, seen):
    """JSON of a value; what it has to leave out is noted."""
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("it is too large")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if value == value and value not in (float("inf"), float("-inf")):
            return value
        note(at, "is %s, which is no JSON" % value)
        return None
    if isinstance(value, re.Pattern):
        flags = "".join(letter for letter, flag in (("i", re.I), ("m", re.M), ("s", re.S)) if value.flags & flag)
        source = value.pattern
        return {"source": source if isinstance(source, str) else source.decode("latin-1"), "flags": flags}
    if any(value is s for s in seen):
        note(at, "contains itself")
        return None
    if len(seen) > MAX_DEPTH:
        note(at, "is nested too deeply")
        return None
    seen.append(value)
    try:
        if isinstance(value, dict):
            clean = {}
            for k, v in value.items():
                if not isinstance(k, str):
                    note(at, "has a key %r, which is no text" % (k,))
                    continue
                clean[k] = plain(v, part("validate").join(at, k), note, left, seen)
            return clean
        if isinstance(value, (list, tuple)):
            return [plain(v, "%s[%d]" % (at, i), note, left, seen) for i, v in enumerate(value)]
    finally:
        seen.pop()
    note(at, "is a %s, which is no JSON" % type(value).__name__)
    return None
