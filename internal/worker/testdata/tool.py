"""What the contract calls, in Python."""
import asyncio
import os
import signal
import subprocess
import sys
import time

count = 0


class Tool:
    name = "contract"

    def self(self, args):
        return self.name


default = Tool


def plain(args):
    return {"plain": args}


def echo(args):
    return args


async def later(args, api):
    await asyncio.sleep(args["ms"] / 1000)
    return "later"


def counter(args):
    global count
    count += 1
    return count


def nothing(args):
    return None


def progress(args, api):
    for i in range(1, args["n"] + 1):
        api.progress(i, args["n"], "step %d" % i)
    return "done"


def logs(args, api):
    print("printed")
    api.log("warn", "a warning", {"n": 2})
    sys.stdout.write("unfinished")
    sys.stderr.write("raw error\n")
    return 1


def ask(args, api):
    return {"got": api.request("double", {"n": args["n"]})}


def askWrong(args, api):
    try:
        api.request("refuse")
        return "answered"
    except Exception as e:
        return e.code


def wait(args, api):
    api.progress(1, 1, "waiting")
    time.sleep(60)


async def waitAsync(args, api):
    api.progress(1, 1, "waiting")
    await asyncio.sleep(60)


background = None


async def startTask(args, api):
    global background
    background = asyncio.create_task(asyncio.sleep(60))
    if args and args.get("wait"):
        api.progress(1, 1, "waiting")
        await asyncio.sleep(60)
    return "started"


async def taskRuns(args):
    await asyncio.sleep(0.001)
    return not background.done()


def deaf(args, api):
    told = False
    while True:
        try:
            if not told:
                told = True
                api.progress(1, 1, "waiting")
            time.sleep(60)
        except BaseException:
            pass


def fail(args):
    e = TypeError("it is wrong")
    e.code = "E_WRONG"
    raise e


async def failLater(args):
    await asyncio.sleep(0.001)
    raise ValueError("later wrong")


def exit(args):
    os._exit(args["code"])


def systemExit(args):
    sys.exit(args["code"])


def loop(args):
    while True:
        pass


def cyclic(args):
    o = {}
    o["o"] = o
    return o


def big(args):
    return {1, 2}


def large(args):
    return "x" * args["n"]


def heap(args):
    kept = []
    while True:
        kept.append(b"x" * (1 << 20))


def buffers(args):
    return len([b"x" * (32 << 20) for _ in range(64)])


def grow(args):
    global kept
    kept = b"x" * args["n"]
    return 1


def binary(args):
    sys.stdout.buffer.write(bytes([0, 255, 254, 10, 1, 2, 10]))
    return 1


def flood(args):
    for _ in range(3000):
        print("x" * 1000)
    return 1


def garbage(args):
    os.write(3, b"hello, descriptor 3")
    time.sleep(60)


def forge(args):
    text = b'{"t":"result","id":1}\n"forged"'
    os.write(3, len(text).to_bytes(4, "big") + text)
    time.sleep(60)


def hugeFrame(args):
    os.write(3, b"\xff\xff\xff\xff")
    time.sleep(60)


def descriptors(args):
    kept = []
    while True:
        kept.append(open("/dev/null"))


def child(args):
    r = subprocess.run(["/bin/sh", "-c", "(true <&3) 2>/dev/null && echo open || echo closed"], stdout=subprocess.PIPE)
    return r.stdout.decode().strip()


def outside(args):
    with open("/etc/shadow") as f:
        return f.read()


def environment(args):
    return sorted(os.environ)


def crash(args):
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)
