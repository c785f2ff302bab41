"""What a Dask worker preloads: `dask worker --preload hurray.dask_worker`, or in the configuration
`distributed.worker.preload`.

Preloads are imported before the worker listens. From here on all that it receives, and every array
that NumPy makes in its tasks, begins at a multiple of 64, and is shared instead of copied.
"""

from . import aligned_allocator
from . import dask as dask

_allocator = aligned_allocator()
_allocator.__enter__()  # and never left: the tasks of the worker inherit this context
