"""What a hostile tool tries. Each function gets w, the places of one attempt."""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time


def ping(w):
    return "pong"


def content(path):
    with open(path, encoding="latin1") as f:
        return f.read()


def fresh(w, name):
    path = os.path.join(w["own"], "data", name)
    if os.path.lexists(path):
        os.unlink(path)
    return path


def every(tries):
    said = []
    for one in tries:
        try:
            said.append(str(one()))
        except Exception as e:
            said.append("failed: %s" % e)
    return "\n".join(said)


def read(w):
    return content(w["path"])


def readSymlink(w):
    path = fresh(w, "link")
    os.symlink(w["path"], path)
    return content(path)


def readProc(w):
    return every(lambda p=p: content(p + w["path"]) for p in ("/proc/self/root", "/proc/1/root", "/proc/%d/root" % os.getppid(), "/proc/%d/root" % w["pid"]))


def readLibc(w):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.open(w["path"].encode(), 0)
    if fd < 0:
        return "failed: %d" % ctypes.get_errno()
    return os.read(fd, 1000).decode("latin1")


def environment(w):
    return str(dict(os.environ)) + every(lambda n=n: content("/proc/%s/environ" % n) for n in os.listdir("/proc") if n.isdigit())


def write(w):
    with open(os.path.join(w["out"], "written"), "w") as f:
        f.write("x")


def writeSymlink(w):
    path = fresh(w, "out")
    os.symlink(w["out"], path)
    with open(os.path.join(path, "through"), "w") as f:
        f.write("x")


def setuid(w):
    path = fresh(w, "suid")
    open(path, "w").close()
    os.chmod(path, 0o6755)


def mount(w):
    path = os.path.join(w["own"], "data", "mnt")
    os.makedirs(path, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x20000) != 0 or libc.mount(b"none", path.encode(), b"tmpfs", 0, None) != 0:
        return "failed: %d" % ctypes.get_errno()
    return "REACHED"


def shell(w):
    return every(lambda p=p: subprocess.check_output([p, "-c", "echo REACHED"]) for p in ("/bin/sh", "/bin/bash"))


def kill(w):
    os.kill(w["victim"], signal.SIGKILL)


def stay(w):
    for _ in range(3):
        if os.fork() == 0:
            try:
                os.setsid()
                # The mark is what it is found by.
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", w["mark"]])
            finally:
                os._exit(1)


def forks(w):
    pids = []
    try:
        for _ in range(300):
            pid = os.fork()
            if pid == 0:
                time.sleep(30)
                os._exit(0)
            pids.append(pid)
    except OSError as e:
        return "stopped at %d: %s" % (len(pids), e)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return "REACHED"


def threads(w):
    stop, started = threading.Event(), []
    try:
        for _ in range(300):
            one = threading.Thread(target=stop.wait)
            one.start()
            started.append(one)
    except RuntimeError as e:
        return "stopped at %d: %s" % (len(started), e)
    finally:
        stop.set()
        for one in started:
            one.join()
    return "REACHED"


def tcp(w):
    socket.create_connection(("127.0.0.1", w["port"]), 3).close()


def udp(w):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", w["udp"]))


def abstract(w):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(3)
    s.connect("\0" + w["abstract"])


def patch(w):
    def forged(*args, **kwargs):
        raise RuntimeError("forged")

    owner, member = w["target"].rsplit(".", 1)
    module = sys.modules[owner]
    setattr(module, member, forged)
    return "REACHED" if getattr(module, member) is forged else "kept"
