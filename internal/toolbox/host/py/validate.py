"""What validate_parameters does."""

import json
import re

MAX_FAULTS = 100
MAX_DEPTH = 64


def validate(params, schema):
    errors = []
    check(params, schema, "parameters", schema, errors, 0)
    return {"valid": not errors, "errors": errors}


def check(value, schema, at, root, errors, depth):
    """Notes what in a value does not fit a JSON Schema (draft 2020-12; of its
    keywords all that look at the value itself, and references within the schema;
    format is a comment)."""
    if schema is None or schema is True or len(errors) >= MAX_FAULTS:
        return
    if schema is False:
        errors.append(at + ": nothing is allowed here")
        return
    if not isinstance(schema, dict):
        return
    if depth >= MAX_DEPTH:
        errors.append(at + ": the schema or the value is nested too deeply")
        return
    depth += 1

    def sub(v, s, where, into=errors):
        check(v, s, where, root, into, depth)

    def fits(v, s):
        mine = []
        sub(v, s, at, mine)
        return not mine

    def fault(expected, got=None):
        errors.append("%s: expected %s, got %s" % (at, expected, show(value) if got is None else got))

    if isinstance(schema.get("$ref"), str):
        sub(value, follow(root, schema["$ref"]), at)
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, t) for t in types):
            fault(" or ".join(map(str, types)))
            return
    if isinstance(schema.get("enum"), list) and not any(same(v, value) for v in schema["enum"]):
        fault("one of " + ", ".join(map(show, schema["enum"])))
    if "const" in schema and not same(schema["const"], value):
        fault(show(schema["const"]))
    if isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, (int, float)):
        check_number(value, schema, fault)
    elif isinstance(value, str):
        check_string(value, schema, fault)
    elif isinstance(value, (list, tuple)):
        check_array(value, schema, at, sub, fits, fault)
    elif isinstance(value, dict):
        check_object(value, schema, at, sub, fault, errors)
    for s in schema.get("allOf") or []:
        sub(value, s, at)
    if isinstance(schema.get("anyOf"), list) and not any(fits(value, s) for s in schema["anyOf"]):
        fault("one of the choices of anyOf")
    if isinstance(schema.get("oneOf"), list):
        n = sum(fits(value, s) for s in schema["oneOf"])
        if n != 1:
            fault("exactly one of the choices of oneOf", "%d that fit" % n)
    if "not" in schema and fits(value, schema["not"]):
        fault("something that does not fit not")
    if "if" in schema:
        sub(value, schema.get("then" if fits(value, schema["if"]) else "else"), at)


def check_number(value, schema, fault):
    for key, wrong, words in (
        ("minimum", lambda b: value < b, "at least %s"),
        ("maximum", lambda b: value > b, "at most %s"),
        ("exclusiveMinimum", lambda b: value <= b, "more than %s"),
        ("exclusiveMaximum", lambda b: value >= b, "less than %s"),
    ):
        bound = schema.get(key)
        if is_type(bound, "number") and wrong(bound):
            fault(words % show(bound))
    step = schema.get("multipleOf")
    if is_type(step, "number") and step > 0:
        times = value / step
        if abs(times - round(times)) > 1e-9 * max(1, abs(times)):
            fault("a multiple of %s" % show(step))


def check_string(value, schema, fault):
    if is_type(schema.get("minLength"), "number") and len(value) < schema["minLength"]:
        fault("at least %s characters" % show(schema["minLength"]), len(value))
    if is_type(schema.get("maxLength"), "number") and len(value) > schema["maxLength"]:
        fault("at most %s characters" % show(schema["maxLength"]), len(value))
    if isinstance(schema.get("pattern"), str):
        pattern = expression(schema["pattern"])
        if pattern is not None and not pattern.search(value):
            fault("a text that matches " + schema["pattern"])


def expression(source):
    try:
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", source))
    except re.error:
        return None


def check_array(value, schema, at, sub, fits, fault):
    if is_type(schema.get("minItems"), "number") and len(value) < schema["minItems"]:
        fault("at least %s items" % show(schema["minItems"]), len(value))
    if is_type(schema.get("maxItems"), "number") and len(value) > schema["maxItems"]:
        fault("at most %s items" % show(schema["maxItems"]), len(value))
    items = schema.get("items")
    first = schema.get("prefixItems") if isinstance(schema.get("prefixItems"), list) else items if isinstance(items, list) else []
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    for i, v in enumerate(value):
        sub(v, first[i] if i < len(first) else rest, "%s[%d]" % (at, i))
    if schema.get("uniqueItems") is True and any(same(v, w) for i, v in enumerate(value) for w in value[:i]):
        fault("items that differ")
    if "contains" in schema:
        n = sum(fits(v, schema["contains"]) for v in value)
        if n < schema.get("minContains", 1) or n > schema.get("maxContains", n):
            fault("an item that fits contains", n)


def check_object(value, schema, at, sub, fault, errors):
    properties = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    patterns = [(expression(p), s) for p, s in (schema.get("patternProperties") or {}).items()]
    for name in schema.get("required") if isinstance(schema.get("required"), list) else []:
        if name not in value:
            errors.append(join(at, name) + ": is required")
    if is_type(schema.get("minProperties"), "number") and len(value) < schema["minProperties"]:
        fault("at least %s properties" % show(schema["minProperties"]), len(value))
    if is_type(schema.get("maxProperties"), "number") and len(value) > schema["maxProperties"]:
        fault("at most %s properties" % show(schema["maxProperties"]), len(value))
    for name, v in value.items():
        where, known = join(at, name), False
        if name in properties:
            known = True
            sub(v, properties[name], where)
        for pattern, s in patterns:
            if pattern is not None and pattern.search(name):
                known = True
                sub(v, s, where)
        if not known and schema.get("additionalProperties") is False:
            errors.append(where + ": is not known; known are " + (", ".join(properties) or "none"))
        elif not known:
            sub(v, schema.get("additionalProperties"), where)
        sub(name, schema.get("propertyNames"), where)
    for name, others in (schema.get("dependentRequired") or {}).items():
        for other in others if name in value else []:
            if other not in value:
                errors.append("%s: is required with %s" % (join(at, other), name))
    for name, s in (schema.get("dependentSchemas") or {}).items():
        if name in value:
            sub(value, s, at)


def follow(root, ref):
    if not ref.startswith("#"):
        return True
    at = root
    for part in filter(None, ref[1:].split("/")):
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, dict) or part not in at:
            return True
        at = at[part]
    return at


def is_type(value, name):
    if name == "null":
        return value is None
    if name == "boolean":
        return isinstance(value, bool)
    if name == "string":
        return isinstance(value, str)
    if name == "array":
        return isinstance(value, (list, tuple))
    if name == "object":
        return isinstance(value, dict)
    if name in ("number", "integer"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (name == "number" or isinstance(value, int) or value.is_integer())
    return True


def same(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    return a == b


def join(at, name):
    return "%s.%s" % (at, name) if re.fullmatch(r"[A-Za-z_$][\w$]*", name, re.ASCII) else "%s[%s]" % (at, json.dumps(name, ensure_ascii=False))


def show(value):
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        text = type(value).__name__
    return text if len(text) <= 80 else text[:80] + "\u2026"
