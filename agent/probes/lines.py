"""The number on a labelled line, in files of one `label number` a line.

meminfo, vmstat and the tail of stat are such files. Searching for the few
labels wanted costs a tenth of parsing the whole.
"""

from trimtab.agent.errors import Malformed


def number(text: bytes, label: bytes) -> int | None:
    """Return the first number on the line that starts with `label`.

    The label includes what ends it (`MemFree:`, `pswpin `); blanks may follow
    or not. None if no line starts so; Malformed if no number follows.
    """
    if text.startswith(label):
        start = len(label)
    else:
        found = text.find(b"\n" + label)
        if found < 0:
            return None
        start = found + 1 + len(label)
    end = text.find(b"\n", start)
    words = text[start : end if end >= 0 else len(text)].split(None, 1)
    if not words or not words[0].isdigit():
        raise Malformed(f"expected a number after {label!r}, got {words[:1]!r}")
    return int(words[0])
