"""Text that others chose, made safe to show.

Node names, labels and a server's messages come from hosts that may be hostile.
What a terminal would obey instead of print (escapes, line ends, marks that turn
the direction of writing) is spelled out; views hand the rest to rich as Text,
which reads no markup in it.
"""


def harmless(text: str) -> str:
    """Return the text with every unprintable character as its escape."""
    return "".join(
        ch if ch.isprintable() else ch.encode("unicode_escape").decode("ascii")
        for ch in text
    )
