"""Which frames of a batch are new: each node's sequence must grow.

What was counted before comes again after a reconnect, and is dropped here.
"""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


def fresh(begins: Rows, seq: Integers, known: Integers) -> Flags:
    """Return which frames have a sequence above all before it of their node.

    The frames stand node by node, each node's in order of arrival; `begins`
    says where each node's begin, `known` the highest taken of each before.
    """
    before = np.empty_like(seq)
    before[1:] = seq[:-1]
    before[begins] = known
    grows = seq > before
    if grows.all():
        return grows
    # Where it doesn't, the highest so far decides, and that goes one by one.
    node = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(seq)))
    for index in np.unique(node[~grows]).tolist():
        highest = int(known[index])
        begin = int(begins[index])
        end = int(begins[index + 1]) if index + 1 < len(begins) else len(seq)
        for i, number in enumerate(seq[begin:end].tolist(), begin):
            grows[i] = number > highest
            highest = max(highest, number)
    return grows
