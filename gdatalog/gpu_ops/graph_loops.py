"""Loops of kernels as one launch: `while` nodes of CUDA graphs, through the driver's library.

The graph begins with a kernel that reads a word on the device, and says whether there is a first
repetition; the same kernel ends each repetition.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from weakref import finalize

from gdatalog.gpu_ops.driver_library import DriverLibrary, Refused

CONDITIONAL = 13  # CU_GRAPH_NODE_TYPE_CONDITIONAL
WHILE = 1  # CU_GRAPH_COND_TYPE_WHILE
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

# `set_condition` reads a word. The driver links the function that it calls, which NVRTC does not
# know.
SOURCE = """#include "prelude.cuh"
#ifdef GD_HOST
static void cudaGraphSetConditional(unsigned long long, unsigned int) {}
#else
extern "C" __device__ void cudaGraphSetConditional(unsigned long long, unsigned int);
#endif
KERNEL(set_condition)(ARRAY(const i64) words, i64 at, i64 condition) {
    if (thread_of_grid() == 0) cudaGraphSetConditional((u64)condition, words[at] != 0 ? 1 : 0);
}
"""


class _Node(ctypes.Structure):
    """CUgraphNodeParams of a conditional node."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("condition", ctypes.c_uint64),
        ("repeats", ctypes.c_int),
        ("graphs", ctypes.c_uint),
        ("bodies", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
        ("rest", ctypes.c_char * 208),
    )


class GraphLoops(DriverLibrary):
    """Makes graphs with loops on GPU `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "a graph of kernels")

    def repeating(
        self, stream: int, body: Callable[[], None], condition: Callable[[int], None]
    ) -> Callable[[int], None]:
        """A graph of the launches of `body`, repeated while a condition holds, which `condition`
        launches the kernel for. Both launch into this stream. What is returned launches the graph
        into a stream."""
        graph, value, node = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
        self.call("cuGraphCreate", ctypes.byref(graph), 0)
        try:
            self.call(
                "cuGraphConditionalHandleCreate", ctypes.byref(value), graph, self._context, 0, 0
            )

            def ending() -> None:
                condition(value.value)

            self._captured(stream, graph, ending)
            first, count = ctypes.c_void_p(), ctypes.c_size_t(1)
            self.call("cuGraphGetNodes", graph, ctypes.byref(first), ctypes.byref(count))
            params = _Node(
                kind=CONDITIONAL, condition=value, repeats=WHILE, graphs=1, context=self._context
            )
            given = ctypes.byref(first), 1, ctypes.byref(params)
            self.call("cuGraphAddNode", ctypes.byref(node), graph, *given)

            def repeated() -> None:
                body()
                ending()

            self._captured(stream, ctypes.c_void_p(params.bodies[0]), repeated)
            made = ctypes.c_void_p()
            self.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, 0)
        finally:
            self.call("cuGraphDestroy", graph)
        return _Launchable(self, made)

    def _captured(self, stream: int, graph: ctypes.c_void_p, launch: Callable[[], None]) -> None:
        """Adds launches to a graph."""
        given = ctypes.c_void_p(stream), graph, None, None, 0, RELAXED
        self.call("cuStreamBeginCaptureToGraph", *given)
        try:
            launch()
        finally:
            ended = ctypes.c_void_p()
            self.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(ended))


class _Launchable:
    """A graph that is ready to be launched."""

    def __init__(self, library: GraphLoops, made: ctypes.c_void_p) -> None:
        self._library, self._made = library, made
        finalize(self, _destroy, library, made)

    def __call__(self, stream: int) -> None:
        self._library.call("cuGraphLaunch", self._made, ctypes.c_void_p(stream))


def _destroy(library: GraphLoops, made: ctypes.c_void_p) -> None:
    with suppress(Refused, MemoryError):
        library.call("cuGraphExecDestroy", made)


def opened(number: int) -> GraphLoops | None:
    """Graphs with loops on a GPU; None if its driver has none."""
    try:
        return GraphLoops(number)
    except (OSError, Refused, MemoryError):
        return None
