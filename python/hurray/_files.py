"""Files of named tensors (spec 4, 8.12): what Python is better at than the extension module.

Paths, file objects and URLs; a Mapping; arrays of others; progress. The format itself is libhurray's.
"""

from __future__ import annotations

import errno
import heapq
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

from ._core import (
    Composite,
    Descriptor,
    FileError,
    Tensor,
    UnsupportedError,
    _FileReader,
    _FileWriter,
    asarray,
)

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from typing_extensions import Buffer, Self

    Progress: TypeAlias = Callable[[int, int], object] | bool | None
    Value: TypeAlias = (
        str
        | int
        | float
        | bool
        | bytes
        | list[str]
        | list[int]
        | list[float]
        | list[bool]
        | list[bytes]
    )
    Source: TypeAlias = str | os.PathLike[str] | Buffer | io.IOBase | Any

_T = TypeVar("_T")

# Bytes that are loaded between two calls of a progress callback.
_PROGRESS_BYTES = 64 << 20
# Tensors, and bytes of them, that are written in one call: so many may be copies, of what is not aligned.
_BATCH = 256
_BATCH_BYTES = 1 << 20


# ---- sources ----


def _refused(name: str, error: Exception) -> FileError:
    number = getattr(error, "errno", None)
    if number is None and isinstance(error, FileNotFoundError):
        number = errno.ENOENT
    text = f"{type(error).__name__}: {error}"
    return FileError(f"{name!r}: {text}") if number is None else FileError(number, text, name)


def _file_object(source: Any) -> Any:
    """What _FileReader takes for a file object: a descriptor, or its size and a function."""
    if isinstance(source, (io.FileIO, io.BufferedReader, io.BufferedRandom)):
        try:
            descriptor = source.fileno()
        except OSError:  # a file in memory below it
            pass
        else:
            if isinstance(source, io.BufferedRandom):
                source.flush()
            return descriptor
    if isinstance(source, io.TextIOBase):
        raise TypeError(f"source is a text file ({type(source).__name__}); open it in mode 'rb'")
    if not (callable(getattr(source, "seek", None)) and callable(getattr(source, "read", None))):
        raise TypeError(
            f"source is {type(source).__name__}; expected a path, a URL, a binary file object with "
            "seek() and read(), or a bytes-like object"
        )
    lock, busy = threading.RLock(), False

    def read_all(size: int) -> bytes:
        parts = []
        while size > 0:
            part = source.read(size)
            if not part:  # the end, or None: nothing at the moment
                break
            parts.append(part)
            size -= len(part)
        return cast(bytes, parts[0]) if len(parts) == 1 else b"".join(parts)

    def read_at(offset: int, size: int) -> bytes:
        nonlocal busy
        with lock:
            if busy:  # this thread, in read() or in a signal handler
                raise RuntimeError("the source is being read by the code that was interrupted")
            try:
                busy = True
                source.seek(offset)
                return read_all(size)
            finally:
                busy = False

    try:
        return source.seek(0, os.SEEK_END), read_at
    except OSError as error:
        raise _refused(type(source).__name__, error) from error


def _remote(url: str) -> Any:
    """The same for a URL, with requests for exactly the bytes that are needed."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise ImportError(f"fsspec is needed to read {url!r}; install hurray[fsspec]") from error
    try:
        system, path = url_to_fs(url)
        if getattr(system, "local_file", False):
            return path
        size = system.size(path)
    except ImportError:  # of what fsspec needs for this kind of URL; it says which
        raise
    except Exception as error:  # each library has exceptions of its own
        raise _refused(url, error) from error
    if size is None:
        raise FileError(f"{url!r} does not tell its size; download it first")

    def read_at(offset: int, size: int) -> bytes:
        return cast(bytes, system.cat_file(path, start=offset, end=offset + size))

    return size, read_at


def _reader(source: Any, **options: Any) -> _FileReader:
    if isinstance(source, str) and "://" in source:
        source = _remote(source)
    elif not isinstance(source, (str, os.PathLike)):
        try:
            memoryview(source)
        except TypeError:
            source = _file_object(source)
    return _FileReader(source, **options)


# ---- names ----

# Names that are compared in full with one that is not there; of more, those that look most alike.
_COMPARED_NAMES = 200
# Characters of the names that are: comparing takes the square of them, and names may be a stranger's.
_COMPARED_LENGTH = 256
# Parts of a name by which others are found to look alike.
_COMPARED_PARTS = 32


def _close_names(name: str, names: list[str]) -> list[str]:
    import difflib

    if len(name) > _COMPARED_LENGTH:
        return []
    names = [other for other in names if len(other) <= 2 * _COMPARED_LENGTH]
    if len(names) > _COMPARED_NAMES:
        starts = range(0, max(1, len(name) - 2), len(name) // _COMPARED_PARTS + 1)
        parts = {name[i : i + 3] for i in starts}
        names = heapq.nlargest(_COMPARED_NAMES, names, lambda n: sum(p in n for p in parts))
    return difflib.get_close_matches(name, names, n=3, cutoff=0.5)


def _shown_name(name: object) -> str:
    """With quotes; of a long one the beginning."""
    text = str(name)
    return repr(name) if len(text) <= _COMPARED_LENGTH else f"{text[:_COMPARED_LENGTH]!r}…"


# ---- progress ----


def _progress(progress: Progress, total: int, what: str) -> tuple[Any, Any]:
    """A callable (done, total) or None, and what to call at the end."""
    if progress is None or progress is False:
        return None, None
    if progress is not True:
        if not callable(progress):
            raise TypeError(
                f"progress is {type(progress).__name__}; expected a callable, True or None"
            )
        return progress, None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise ImportError("tqdm is needed for progress=True; install hurray[tqdm]") from error
    bar = tqdm(total=total, unit="B", unit_scale=True, desc=what)

    def show(done: int, total: int) -> None:
        bar.total = max(total, done)
        bar.update(done - bar.n)

    return show, bar.close


# ---- save ----


def _is_array(value: Any) -> bool:
    kinds = ("__hurray__", "__dlpack__", "__array_interface__", "__array__")
    return any(hasattr(type(value), kind) for kind in kinds)


def _check_item(name: object, value: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a name of tensors is {type(name).__name__}; expected str")
    if not isinstance(value, (Tensor, Composite)) and not _is_array(value):
        raise UnsupportedError(
            f"tensors[{name!r}] is {type(value).__name__}; expected a hurray.Tensor, a "
            "hurray.Composite, or an array that hurray.asarray takes"
        )


def _batches(sizes: list[int], limit: int) -> Iterator[slice]:
    """Runs of items that go to the writer in one call: small ones, about `limit` bytes together."""
    start = size = 0
    for end, more in enumerate(sizes, 1):
        size += more
        if size >= limit or end - start == _BATCH or end == len(sizes):
            yield slice(start, end)
            start, size = end, 0


def _as_item(name: str, value: Any) -> Tensor | Composite:
    if isinstance(value, (Tensor, Composite)):
        return value
    try:
        return asarray(value)
    except UnsupportedError as error:
        raise UnsupportedError(f"tensors[{name!r}]: {error}") from error


def _size(value: Any) -> int:
    """In bytes; 0 where an array does not tell."""
    if isinstance(value, Composite):
        return sum(_size(member) for member in value.members)
    try:
        return int(value.nbytes)
    except Exception:
        return 0


def save(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Any],
    *,
    kv: dict[str, Value] | None = None,
    alignment: int | None = 4096,
    sorted_index: bool | None = False,
    progress: Progress = None,
    checksums: bool | None = False,
) -> None:
    """Write named tensors into a file (spec 4, 8.12).

    tensors: a dict of Tensor and Composite; arrays of other libraries go through asarray, one at a time
    (which copies those that are not 64-aligned), the rest of them as they lie. kv: metadata, str to str,
    int, float, bool, bytes, or a list of one of them; what load_kv gives, too, but for the checksums of
    that file. alignment: of data in the file, a power of two from 4096 to 2097152 bytes. sorted_index: by
    name, for readers that search. checksums: a CRC-32C of the data of each tensor, which File.verify
    compares. progress: a callable that is given bytes written and bytes in all, or True for a bar by tqdm.

    The file has its name only when it is whole and on the disk; until then, and after any failure, what
    was there before is untouched. It keeps the mode of the file it replaces; a symbolic link stays one.
    Saving over the file that tensors are mapped from is fine.

    FileError: the system refused. UnsupportedError: an element is no array, or lies on a device; a URL.
    ValueError: a name that is empty, too long or not unique.

    >>> import hurray, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
    >>> hurray.save(path, {"w": hurray.ones((2, 3))}, kv={"layers": 1})
    >>> hurray.load(path)["w"].shape
    (2, 3)
    """
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors is {type(tensors).__name__}; expected a dict of names to tensors")
    items = list(tensors.items())
    for name, value in items:
        _check_item(name, value)
    if isinstance(path, str) and "://" in path:
        raise UnsupportedError(f"{path!r} is a URL; files are saved to paths only")
    sizes = [_size(value) for _, value in items]
    total = sum(sizes)
    tell, finish = _progress(progress, total, "save")
    try:
        writer = _FileWriter(
            path, kv=kv, alignment=alignment, sorted_index=sorted_index, checksums=checksums
        )
        try:
            for run in _batches(sizes, _BATCH_BYTES if tell is None else 0):
                names = tuple(name for name, _ in items[run])
                # No variable for these: or copies would be in memory while the next ones are made.
                done = writer.add_many(
                    names, tuple(_as_item(name, value) for name, value in items[run])
                )
                if tell is not None:
                    tell(min(done, total), total)
            if tell is not None:  # while there still is a way back
                tell(total, total)
            writer.finish()
        finally:
            writer.abandon()
    finally:
        if finish is not None:
            finish()


# ---- load ----


def load(
    path: Source,
    *,
    names: Iterable[str] | None = None,
    mmap: bool | Literal["r"] | None = True,
    prefetch: bool | None = False,
    threads: int | None = None,
    progress: Progress = None,
    check_size: bool | None = False,
) -> dict[str, Tensor | Composite]:
    """Tensors of a file, by name, in the order of the file; composites as one (spec 8.12).

    path: a path; a binary file object; a bytes-like object; a URL, which fsspec opens. names: only
    these, members of composites too; in that order.

    mmap=True: views of a private mapping, without a copy. They are writable; a write changes a page of
    this process, never the file. "r": the mapping is read-only. False: they are read by several threads
    (`threads`, None: as many as help) into one block of memory, which lives as long as one of them does.
    What cannot be mapped, a URL for one, is read. prefetch: have the system read a mapping ahead.
    progress: as of save; meant for reading. A mapping breaks when somebody else cuts the file short:
    then the process gets a signal (SIGBUS) where it touches what is gone. Files that save replaces do
    not; for others use mmap=False, or check_size=True, which looks at the size again before it
    hands out a tensor.

    FileError: the system refused, or the file is not what spec 4 says; for a name that is not there, a
    FileError that is also a KeyError and lists close ones. InvalidDescriptorError: a tensor's own.

    >>> import hurray, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
    >>> hurray.save(path, {"w": hurray.ones((2, 3)), "b": hurray.zeros(3)})
    >>> list(hurray.load(path)), list(hurray.load(path, names=["b"], mmap=False))
    (['w', 'b'], ['b'])
    """
    with File(path, mmap=mmap, prefetch=prefetch, check_size=check_size, threads=threads) as file:
        return file._load(_listed(names), progress)


def _listed(names: Iterable[str] | None) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError(f"names is a str; expected a list of them, as [{names!r}]")
    return list(dict.fromkeys(names))


def load_kv(path: Source) -> dict[str, Value]:
    """The metadata of a file; no tensor is read. Errors as of load.

    >>> import hurray, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "empty.hrry")
    >>> hurray.save(path, {}, kv={"author": "me", "layers": [2, 4]})
    >>> hurray.load_kv(path)
    {'author': 'me', 'layers': [2, 4]}
    """
    with File(path, mmap="r") as file:
        return file.kv


def open(
    path: Source,
    *,
    mmap: bool | Literal["r"] | None = True,
    prefetch: bool | None = False,
    check_size: bool | None = False,
) -> File:
    """A File to take tensors from one by one; arguments and errors as of load.

    >>> import hurray, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
    >>> hurray.save(path, {"w": hurray.ones((2, 3))})
    >>> with hurray.open(path) as file:
    ...     file["w"].shape
    (2, 3)
    """
    return File(path, mmap=mmap, prefetch=prefetch, check_size=check_size)


class File(Mapping[str, Tensor | Composite]):
    """An open file of named tensors: a read-only mapping, in the order of the file (spec 8.12).

    Opening reads and checks the index; file[name] touches that tensor's bytes, and only those.
    Iterating gives composites as one; their members are found by their own names. Tensors outlive the
    file. A context manager; safe to use from several threads.

    >>> import hurray, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
    >>> hurray.save(path, {"w": hurray.arange(6)}, kv={"layers": 1})
    >>> with hurray.open(path) as file:
    ...     print(list(file), file.kv, file.read("w", 2, 4))
    ['w'] {'layers': 1} [2 3]
    """

    def __init__(
        self,
        path: Source,
        *,
        mmap: bool | Literal["r"] | None = True,
        prefetch: bool | None = False,
        check_size: bool | None = False,
        threads: int | None = None,
    ) -> None:
        self._path = path
        self._threads = threads or 0
        self._reader = _reader(path, mmap=mmap, prefetch=prefetch, check_size=check_size)
        self._names: list[str] | None = None

    # ---- the mapping ----

    def __getitem__(self, name: str) -> Tensor | Composite:
        try:
            return self._reader.get(name)
        except KeyError as error:
            raise self._missing(name, error) from None

    def _roots(self) -> list[str]:
        if self._names is None or self._reader.closed:  # which says so
            self._names = self._reader.names()
        return self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._roots())

    def __len__(self) -> int:
        return len(self._roots())

    @overload
    def get(self, name: str, /) -> Tensor | Composite | None: ...
    @overload
    def get(self, name: str, default: _T, /) -> Tensor | Composite | _T: ...
    def get(self, name: str, default: Any = None, /) -> Any:
        """The Tensor or Composite of that name, or `default`.

        >>> import hurray, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
        >>> hurray.save(path, {"w": hurray.arange(6)})
        >>> hurray.open(path).get("v", "none")
        'none'
        """
        if name not in self:  # without looking for close ones
            return default
        return self[name]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self._reader.entry(name)
        except KeyError:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a hurray.File cannot be pickled or copied; send its path")

    def __repr__(self) -> str:
        if self._reader.closed:
            return f"<hurray.File {self._shown()}, closed>"
        return f"<hurray.File {self._shown()}: {len(self)} tensors, {self.info['size']} bytes>"

    # ---- one tensor ----

    def descriptor(self, name: str) -> Descriptor:
        """The Descriptor of a tensor, or of a composite's head, without its data.

        >>> import hurray, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
        >>> hurray.save(path, {"w": hurray.arange(6)})
        >>> hurray.open(path).descriptor("w").shape
        (6,)
        """
        try:
            return self._reader.descriptor(name)
        except KeyError as error:
            raise self._missing(name, error) from None

    def read(self, name: str, start: int | None = 0, stop: int | None = None) -> Tensor:
        """Rows start to stop - 1 of a tensor, along dimension 0; only their bytes are read.

        start and stop are as in slices: negative ones count from the end, those beyond it are cut. Other
        layouts than row-major, quantized tensors and rows that do not begin at a byte:
        UnsupportedError. Shape [stop - start, …].

        >>> import hurray, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
        >>> hurray.save(path, {"w": hurray.arange(6)})
        >>> print(hurray.open(path).read("w", -2))
        [4 5]
        """
        try:
            return self._reader.rows(name, slice(start, stop))
        except KeyError as error:
            raise self._missing(name, error) from None

    # ---- the whole ----

    @property
    def kv(self) -> dict[str, Value]:
        """The metadata, a new dict; {} when there is none."""
        return self._reader.kv()

    @property
    def info(self) -> dict[str, Any]:
        """What header and trailer say: version, flags, alignment, size, offsets in bytes."""
        return self._reader.info()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._reader.closed

    def all_names(self) -> list[str]:
        """Names of all entries in the order of writing, heads and members of composites alike.

        >>> import hurray, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
        >>> hurray.save(path, {"w": hurray.arange(6)})
        >>> hurray.open(path).all_names()
        ['w']
        """
        return self._reader.names(True)

    def verify(self, *, deep: bool | None = True) -> None:
        """Check every tensor: descriptors, composites, checksums where the file has them; `deep`: also
        indices, pointers, scales and statistics (Tensor.verify). Raises what is wrong first:
        FileError or InvalidDescriptorError, with the name of the tensor in a note or the message.

        >>> import hurray, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
        >>> hurray.save(path, {"w": hurray.arange(6)}, checksums=True)
        >>> hurray.open(path).verify()
        """
        self._reader.kv()
        for name in self.all_names():
            self._reader.verify(name, deep is None or deep)

    def close(self) -> None:
        """Tensors stay; the file itself gives FileError from now on.

        >>> import hurray, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.hrry")
        >>> hurray.save(path, {"w": hurray.arange(6)})
        >>> file = hurray.open(path)
        >>> t = file["w"]
        >>> file.close()
        >>> file.closed, t.shape
        (True, (6,))
        """
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- inner ----

    def _missing(self, name: object, error: KeyError) -> KeyError:
        """The same error with the names that are close."""
        close = _close_names(str(name), self.all_names())
        hint = f"; close ones are {', '.join(map(repr, close))}" if close else ""
        return type(error)(f"no tensor {_shown_name(name)} in {self._shown()}{hint}")

    def _shown(self) -> str:
        if isinstance(self._path, (str, os.PathLike)):
            return repr(os.fspath(self._path))
        return f"of {type(self._path).__name__}"

    def _load(self, names: list[str] | None, progress: Progress) -> dict[str, Tensor | Composite]:
        try:
            if progress is None or progress is False:
                return self._reader.load(names, self._threads)
            return self._load_slowly(list(self) if names is None else names, progress)
        except KeyError as error:
            absent = next((n for n in names or () if n not in self), None)
            if absent is None:  # of the progress callable
                raise
            raise self._missing(absent, error) from None

    def _load_slowly(self, names: list[str], progress: Progress) -> dict[str, Tensor | Composite]:
        """In portions, telling after each."""
        sizes = [self._reader.item_bytes(name) for name in names]
        total, done, portion, waiting = sum(sizes), 0, [], 0
        loaded: dict[str, Tensor | Composite] = {}
        tell, finish = _progress(progress, total, "load")
        try:
            for name, size in zip(names, sizes, strict=True):
                portion.append(name)
                waiting += size
                if waiting >= _PROGRESS_BYTES or len(loaded) + len(portion) == len(names):
                    loaded.update(self._reader.load(portion, self._threads))
                    done, portion, waiting = done + waiting, [], 0
                    tell(done, total)
        finally:
            if finish is not None:
                finish()
        return loaded
