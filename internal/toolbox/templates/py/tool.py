"""A tool is one module. execute does the work; the other functions say what the
tool is, and a change of this file is there at the next call."""

import re
from collections import Counter

WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def get_metadata():
    """What people and models read when they choose a tool."""
    return {
        "id": "{{name}}",
        "name": "{{title}}",
        "description": "Counts the words, lines and characters of a text, finds its most frequent words and says how long it takes to read. Use it when a text has to fit a length, or to see what it is about.",
        "version": "1.0.0",
        "category": "text",
        "author": "{{author}}",
        "tags": ["text", "statistics"],
        "scenarios": ["Check that an article stays within 800 words", "See which words a text repeats"],
        "limitations": ["Languages that put no spaces between words count as one word a run of letters"],
    }


def get_schema():
    """parameters: what a call may pass; the runtime checks it before execute sees it.
    environment: settings, which `toolm` mode configure keeps in .env."""
    return {
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 1, "maxLength": 1000000, "description": "The text to look at"},
                "top": {"type": "integer", "minimum": 0, "maximum": 50, "default": 5, "description": "How many of the most frequent words to list"},
                "case": {"type": "string", "enum": ["ignore", "keep"], "default": "ignore", "description": "Whether Word and word are the same word"},
            },
            "required": ["text"],
        },
        "environment": {
            "type": "object",
            "properties": {
                "WORDS_PER_MINUTE": {"type": "integer", "minimum": 1, "default": 200, "description": "How fast the reader reads"},
            },
            "required": [],
        },
    }


def get_dependencies():
    """Packages and their versions: {"requests": ">=2.32,<3"}; requirements.txt has the
    same."""
    return {}


def get_business_errors():
    """Failures that are no bugs. A message that matches tells the caller what to do."""
    return [
        {
            "code": "NO_WORDS",
            "description": "The text holds no word at all",
            "match": re.compile("holds no words"),
            "solution": "Pass a text with letters or digits in it.",
            "retryable": False,
        },
    ]


def get_runtime_config():
    """What the tool asks for. More than the defaults needs a person's consent, once."""
    return {"sandboxType": "python", "maxMemory": 256, "maxExecutionTime": 10000, "networkAccess": False}


def execute(params, ctx):
    text = params["text"]
    lines = re.split(r"\r\n|\r|\n", text)
    counts = Counter()
    for i, line in enumerate(lines):
        if i > 0 and i % 10000 == 0:
            ctx.api.progress(i, len(lines), "counting words")
        found = WORD.findall(line)
        counts.update(found if params.get("case") == "keep" else [word.lower() for word in found])
    words = sum(counts.values())
    if words == 0:
        raise ValueError("the text holds no words to count")

    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: params.get("top", 5)]
    speed = int(ctx.api.environment.get("WORDS_PER_MINUTE") or 200)
    ctx.api.logger.info("counted", {"words": words, "lines": len(lines)})
    return {
        "words": words,
        "lines": len(lines),
        "characters": len(text),
        "minutes": round(words / speed, 1),
        "frequent": [{"word": word, "count": count} for word, count in frequent],
    }
