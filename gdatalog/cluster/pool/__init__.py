"""Calls that a cluster's workers run, and values that stay there.

To spread work, create a `TaskStage`, add calls to it, and iterate over it: it yields results as
calls end. More calls can be added meanwhile. All waiting for the cluster happens in stages.

    stage = pool.stage("triangles", limits)
    for cell in cells:
        stage.add(Call(look_through, (task, [cell], 1.0, False, placed, table)))
    for call, rows in stage:
        ...

Guarantees. A stage yields each call once, even if workers die: their calls run again, and values
that only they had (`RemoteValue`) are recomputed. A call may run twice, so it has no side effects;
it does not change its arguments, because the worker's other calls share them. If a call fails, the
iteration raises its error and the stage cancels the other calls. It also cancels them if you leave
the iteration or stop the query: `current_watch()` in a call then raises, and `Limits()` created
there poll it. If a call needs more memory than a worker has, the stage raises `TooLarge`, unless
its `smaller` function returns calls that together do the same work. Values that a stage lists as
`unrecoverable` are not recomputed: if one is lost, the stage raises `Lost`.
"""

from __future__ import annotations

from gdatalog.cluster.pool.broadcast import Broadcast
from gdatalog.cluster.pool.calls import Call, Lost, RemoteElement, RemoteValue, TooLarge
from gdatalog.cluster.pool.task_stage import Pool, TaskStage

__all__ = [
    "Broadcast", "Call", "Lost", "Pool", "RemoteElement", "RemoteValue", "TaskStage", "TooLarge"
]  # fmt: skip
