"""Tables of channels, regions, restarts and slots, by hand from sections 1.3 and 2."""

LANES = "a*2\nb*2\na -> b rescale"
SHUFFLE = "a*2\nb*3\na -> b hash"
MIXED = """
a*2
b*2
c*2
set execution.runtime-mode batch
a -> b rescale pipelined
b -> c hash blocking
"""
THREE = "a*3\nb*2\nc\na -> b hash\nb -> c hash"

CHANNELS = {
    "all to all 2 to 3": (SHUFFLE,
     "channels b = 0.0 1.0 | 0.1 1.1 | 0.2 1.2\nsubpartitions 0 = 3 3"),
    "all to all 3 to 1": ("a*3\nb\na -> b global", "channels b = 0.0 1.0 2.0"),
    "forward 3 to 3": ("a*3\nb*3 head\na -> b",
     "channels b = 0.0 | 1.0 | 2.0\nsubpartitions 0 = 1 1 1"),
    "pointwise 4 to 2": ("a*4\nb*2\na -> b rescale", "channels b = 0.0 1.0 | 2.0 3.0"),
    "pointwise 5 to 2": ("a*5\nb*2\na -> b rescale", "channels b = 0.0 1.0 | 2.0 3.0 4.0"),
    "pointwise 5 to 3": ("a*5\nb*3\na -> b rescale", "channels b = 0.0 | 1.0 2.0 | 3.0 4.0"),
    "pointwise 7 to 3": ("a*7\nb*3\na -> b rescale",
     "channels b = 0.0 1.0 | 2.0 3.0 | 4.0 5.0 6.0"),
    "pointwise 4 to 1": ("a*4\nb\na -> b rescale", "channels b = 0.0 1.0 2.0 3.0"),
    "pointwise 1 to 4": ("a\nb*4\na -> b rescale",
     "channels b = 0.0 | 0.1 | 0.2 | 0.3\nsubpartitions 0 = 4"),
    "pointwise 2 to 4": ("a*2\nb*4\na -> b rescale",
     "channels b = 0.0 | 0.1 | 1.0 | 1.1\nsubpartitions 0 = 2 2"),
    "pointwise 2 to 5: modulo, not place": ("a*2\nb*5\na -> b rescale",
     "channels b = 0.0 | 0.1 | 0.2 | 1.1 | 1.0\nsubpartitions 0 = 3 2"),
    "pointwise 2 to 3": ("a*2\nb*3\na -> b rescale",
     "channels b = 0.0 | 0.1 | 1.0\nsubpartitions 0 = 2 1"),
    "pointwise 3 to 5": ("a*3\nb*5\na -> b rescale",
     "channels b = 0.0 | 0.1 | 1.0 | 1.1 | 2.0\nsubpartitions 0 = 2 2 1"),
    "pointwise 3 to 7": ("a*3\nb*7\na -> b rescale",
     "channels b = 0.0 | 0.1 | 0.2 | 1.1 | 1.0 | 2.1 | 2.0\nsubpartitions 0 = 3 2 2"),
    "gates one after the other": ("a*2\nb\nc*2\na -> c hash\nb -> c hash 1",
     "channels c = 0.0 1.0 0.0 | 0.1 1.1 0.1"),
    "a union of a stream with itself": ("a*2\nb*2\na -> b hash\na -> b rescale",
     "channels b = 0.0 1.0 0.0 | 0.1 1.1 1.0\nresults = a*2 0 | a*2 1"),
}  # fmt: skip

REGIONS = {
    "pointwise lanes are a region each": (LANES, "regions = a0 b0 | a1 b1\nrestart b1 = a1 b1"),
    "rescale 2 to 3": ("a*2\nb*3\na -> b rescale",
     "regions = a0 b0 b1 | a1 b2\nrestart b0 = a0 b0 b1"),
    "one all-to-all edge joins all": (SHUFFLE, "regions = a0 a1 b0 b1 b2"),
    "lanes behind a shuffle are joined by it": ("a*2\nb*2\nc*2\na -> b hash\nb -> c rescale",
     "regions = a0 a1 b0 b1 c0 c1"),
    "a blocking edge parts regions": (MIXED,
     "regions = a0 b0 | a1 b1 | c0 | c1\nrestart a0 = a0 b0 c0 c1\nrestart c0 = c0"),
    "a lost partition takes its producer's region along": (MIXED,
     "restart c0 b0 = a0 b0 c0 c1\nrestart c0 a0 = c0\nrestart c0 b0 b1 = a0 a1 b0 b1 c0 c1"),
    "hybrid results part regions": (
        "a\nb\nc\na -> b hash hybrid_full\nb -> c hash hybrid_selective\n"
        "set execution.runtime-mode batch",
        "regions = a0 | b0 | c0\nrestart b0 = b0 c0",
    ),
    "an approximate result parts regions": ("a\nb\na -> b hash pipelined_approximate",
     "regions = a0 | b0\nrestart b0 = b0\nrestart a0 = a0 b0"),
    "regions in a cycle are one": ("a*2\nb*2\na -> b rescale pipelined\na -> b hash blocking\n"
     "set execution.runtime-mode batch", "regions = a0 a1 b0 b1"),
    "blocking lanes in a row are no cycle": (
        "a*2\nb*2\na -> b rescale pipelined\na -> b rescale blocking\n"
        "set execution.runtime-mode batch",
        "regions = a0 b0 | a1 b1",
    ),
    "two jobs in one: two regions": ("a\nb\nc\nd\na -> b hash\nc -> d hash",
     "regions = a0 b0 | c0 d0\nrestart d0 = c0 d0"),
}  # fmt: skip

SHARING = {
    "equal parallelism: subtask i shares slot i": ("a*2\nb*2\nc*2\na -> b rescale\nb -> c hash",
     "share local = a0 b0 c0 | a1 b1 c1"),
    "rescale 2 to 3": ("a*2\nb*3\na -> b rescale",
     "share local = a0 b0 | a1 b2 | b1\nshare tasks = a0 b0 | a1 b1 | b2"),
    "rescale 4 to 2": ("a*4\nb*2\na -> b rescale",
     "share local = a0 b0 | a1 | a2 b1 | a3\nshare tasks = a0 b0 | a1 b1 | a2 | a3"),
    "all to all: index by index": (SHUFFLE, "share local = a0 b0 | a1 b1 | b2"),
    "what is left over takes the oldest free slot": (
        "a*3\nb*2\nc*3\na -> b rescale\na -> c hash\nb -> c hash",
        # b0 sits with a0, b1 with a1; c goes index by index through the queue of a's slots.
        "share local = a0 b0 c0 | a1 b1 c1 | a2 c2",
    ),
    "two sources share slots, and their consumer goes along": (
        "a*2\nc*2\nb*2\nc -> b hash\na -> b hash",
        "share local = a0 c0 b0 | a1 c1 b1",
    ),
    "a candidate is used up when it is looked at": (
        "a\nb*3\nc*2\na -> c hash\nb -> c hash",
        # c0 takes a's slot, which is b0's too; c1 finds that queue empty and b's slot 0 taken.
        "share local = a0 b0 c0 | b1 c1 | b2",
    ),
    "groups have slots of their own": ("a*2\nb*2 in g\nc*2 in g\na -> b\nb -> c hash",
     "share local = a0 | a1 | b0 c0 | b1 c1\nslots = default 2 | g 2"),
    "a producer in another group does not count": ("a*3\nb*2 in g\nc*3 in default\na -> b\nb -> c",
     "share local = a0 c0 | a1 c1 | a2 c2 | b0 | b1"),
    "tasks: smaller vertices go on where the last one stopped": ("a*4\nb*3\nc*2\na -> b\nb -> c",
     "share tasks = a0 b0 c1 | a1 b1 | a2 b2 | a3 c0"),
    "tasks: one of the largest parallelism begins at slot 0": (
        "a\nb*3\nc*2\nd*3\na -> b\nb -> c\nc -> d",
        "share tasks = a0 b0 d0 | b1 c0 d1 | b2 c1 d2",
    ),
    "tasks: groups one after the other": ("a*2\nb*3 in g\nc\na -> b\nb -> c",
     "share tasks = a0 | a1 | b0 c0 | b1 | b2"),
}  # fmt: skip

ASSIGNING = {
    "none: fill one, then the next": ("a*5", "assign none 3 2 = 0.0 0.1 1.0 1.1 2.0"),
    "slots: always the one least in use": ("a*5", "assign slots 3 2 = 0.0 1.0 2.0 0.1 1.1"),
    "min_resources: as few as possible": ("a*3", "assign min_resources 3 4 = 0.0 0.1 0.2"),
    "tasks: the fullest to the one with fewest tasks": (
        "a*4\nb*3\nc*2\na -> b\nb -> c",
        # shared: a0 b0 c1 | a1 b1 | a2 b2 | a3 c0; the first is the fullest.
        "assign tasks 2 2 tasks = 0.0 1.0 1.1 0.1",
    ),
    "tasks: by size, not by order": (
        "a*3\nb in default\na -> b",
        "share local = a0 b0 | a1 | a2\nassign tasks 2 2 = 0.0 1.0 1.1",
    ),
    "exactly enough": ("a*4", "assign none 2 2 = 0.0 0.1 1.0 1.1"),
}
