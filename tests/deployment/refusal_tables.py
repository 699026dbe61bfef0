"""What is refused, when, and in which words."""

# Lines of a graph; what is asked of it (empty: the stream graph is refused); words of the refusal.
REFUSALS = {
    "an explicit forward between unequal parallelisms": ("a*2\nb*3\na -> b forward", "",
     "edge a->b: forward from 2 subtasks to 3"),
    "hybrid in streaming": ("a\nb\na -> b hash hybrid_full", "", "hybrid_full is for batch jobs"),
    "hybrid beside a slot sharing group": (
        "a\nb in g\na -> b hash hybrid_full\nset execution.runtime-mode batch",
        "",
        "the slot sharing group 'g' of 'b'",
    ),
    "two operators of one name": ("a\na\na -> a", "", "two operators have the name 'a'"),
    "two operators of one uid": ("a uid x\nb uid x\na -> b", "", "two operators have the uid 'x'"),
    "an edge to nowhere": ("a\na -> b", "", "there is no operator 'b' (there are a)"),
    "a cycle": ("a\nb\nc\na -> b\nb -> c\nc -> b", "", "'b', 'c': in a cycle, or behind one"),
    "a source with an input": ("a\nb source\na -> b", "", "'b' is a source, but edges lead to it"),
    "an operator without one": ("a sink", "", "'a' is a sink, but no edge leads to it"),
    "a sink with an output": ("a\nb sink\nc\na -> b\nb -> c", "", "'b' is a sink, but has edges"),
    "parallelism above max parallelism": ("a*5/4", "max a",
     "'Source: a': its parallelism, 5, is higher than its max parallelism, 4"),
    "max parallelism of 0": ("a*1/0", "", "max_parallelism: 0 is out of range"),
    "max parallelism above Flink's": ("a*1/32769", "", "max_parallelism: 32769 is out of range"),
    "too few slots": ("a*5", "assign none 2 2", "required 5 slots, but only 4 available"),
    "an unknown way to share": ("a", "share nearest", "mode is 'nearest': needs local or tasks"),
    "an unknown way to assign": ("a", "assign random 1 1", "mode is 'random': needs one of none"),
    "no task manager": ("a", "assign none 0 1", "0 task managers with 1 slots"),
    "an unknown option": ("a\nset pipeline.chaining false", "", "chaining' is not an option"),
    "an option's value": ("a\nset execution.runtime-mode sometimes", "", "'sometimes' is not one"),
}  # fmt: skip
