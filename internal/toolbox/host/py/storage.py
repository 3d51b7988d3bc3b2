"""What ctx.api.storage does."""

import json
import os
import time

STORAGE_QUOTA = 10 << 20  # bytes of data/storage.json
LOCK_TIME = 5.0  # seconds after which who holds the lock has lost it
LOCK_WAIT = 20.0  # seconds that a change waits for it
SETTLED = 0.1  # seconds after which a file is surely not written in the same moment again


class QuotaExceeded(Exception):
    code = "STORAGE_QUOTA"


class Storage:
    """JSON in one file. Other workers of the tool have the same file: it is read
    again when it has changed, and each change is made under a lock."""

    def __init__(self, setup, logger):
        data = setup["data"]
        self._logger, self._data, self._quota = logger, data, setup.get("quota") or STORAGE_QUOTA
        self._file, self._lock = os.path.join(data, "storage.json"), os.path.join(data, ".storage.lock")
        # _version is that of the file, None if that cannot be told; _source what was in it.
        self._items, self._version, self._source = {}, None, b""

    def get_item(self, key, default=None):
        self._load()
        if key not in self._items:
            return default
        value = self._items[key]
        return json.loads(json.dumps(value)) if isinstance(value, (dict, list)) else value

    def set_item(self, key, value):
        try:
            value = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as e:
            raise TypeError("storage: the value of %s cannot be written as JSON: %s" % (key, e)) from None
        self._change(lambda items: items.__setitem__(str(key), value))

    def remove_item(self, key):
        self._load()
        if key in self._items:
            self._change(lambda items: items.pop(key, None))

    def clear(self):
        self._load()
        if self._source:
            self._change(lambda items: items.clear())

    def _stat(self):
        """Tells two versions of the file apart, but for those that were written in
        the same moment, as far as the clock of the file system goes."""
        try:
            s = os.stat(self._file)
        except FileNotFoundError:
            return "none"
        return None if time.time() - s.st_mtime < SETTLED else (s.st_ino, s.st_size, s.st_mtime_ns)

    def _load(self, sure=False):
        now = self._stat()
        if now is not None and now == self._version and not sure:
            return
        self._version = now
        try:
            with open(self._file, "rb") as f:
                data = f.read()
        except FileNotFoundError:
            data = b""
        if data == self._source:
            return
        try:
            items = json.loads(data) if data.strip() else {}
            if not isinstance(items, dict):
                raise ValueError("it is no object")
            self._items, self._source = items, data
        except ValueError as e:
            self._items, self._source, self._version = {}, b"", None
            self._keep_aside(e)

    def _keep_aside(self, e):
        """Saves a file that cannot be read from being written over."""
        aside = "%s.corrupt-%d" % (self._file, time.time() * 1000)
        try:
            os.rename(self._file, aside)
        except FileNotFoundError:
            return  # another worker was faster
        self._logger.warn("storage: data/storage.json could not be read (%s); it is kept as data/%s" % (e, os.path.basename(aside)))

    def _change(self, change):
        """Makes new items of the old ones. Whoever holds the lock for so long that it
        is taken away notices it before anything is written, and starts again."""
        os.makedirs(self._data, exist_ok=True)
        until, done = time.time() + LOCK_WAIT, False
        while not done:
            token = self._take(until)
            try:
                self._load(True)
                items = dict(self._items)
                change(items)
                done = self._save(items, token)
            finally:
                if self._mine(token):
                    os.unlink(self._lock)

    def _mine(self, token):
        try:
            with open(self._lock, "rb") as f:
                return f.read() == token
        except FileNotFoundError:
            return False

    def _take(self, until):
        token, wait = os.urandom(12).hex().encode(), 0.001
        while True:
            try:
                with open(self._lock, "xb") as f:
                    f.write(token)
                return token
            except FileExistsError:
                pass
            if time.time() > until:
                raise TimeoutError("storage: another worker of the tool writes to it and does not end")
            try:
                # Who holds it for so long has been killed.
                if time.time() - os.stat(self._lock).st_mtime > LOCK_TIME:
                    os.unlink(self._lock)
            except FileNotFoundError:
                pass
            time.sleep(wait)
            wait = min(wait * 2, 0.02)

    def _save(self, items, token):
        """Writes the file, unless the lock was lost."""
        text = json.dumps(items, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
        if len(text) > self._quota:
            raise QuotaExceeded(
                "storage: %d bytes would be over its quota of %d bytes; remove items, or keep large data in files of the folder data"
                % (len(text), self._quota)
            )
        temporary = os.path.join(self._data, ".storage.%s.tmp" % token.decode())
        try:
            with open(temporary, "wb") as f:
                f.write(text)
            if not self._mine(token):
                return False
            os.rename(temporary, self._file)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
        self._items, self._source, self._version = items, text, self._stat()
        return True
