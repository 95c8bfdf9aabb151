"""The diagram of docs/architecture.md is made from the table of rules.

`python -m tests.collector.test_state_diagram` prints it anew.
"""

from pathlib import Path

from trimtab.collector.states import RULES, State

PAGE = Path(__file__).parents[2] / "docs/architecture.md"
BEGIN, END = (
    "<!-- states: made from collector/states.py -->\n",
    "<!-- end of states -->",
)


def diagram() -> str:
    """Return the rules as a Mermaid state diagram and a table, in order."""
    lines = ["```mermaid", "stateDiagram-v2"]
    rows = ["", "| | of | if | then |", "| --- | --- | --- | --- |"]
    for number, rule in enumerate(RULES, 1):
        everyone = rule.of == frozenset(State)
        of = ["any"] if everyone else sorted(state.name.lower() for state in rule.of)
        then = "stays" if rule.then is None else rule.then.name.lower()
        rows.append(f"| {number} | {', '.join(of)} | {rule.when} | {then} |")
        for state in of:
            to = state if rule.then is None else then
            lines.append(f"  {state} --> {to}: {number}")
    return "\n".join([*lines, "```", *rows, ""])


def test_the_page_shows_the_machine_as_it_is():
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == diagram()


if __name__ == "__main__":
    print(diagram())
