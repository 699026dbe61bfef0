"""Tables of chaining, by hand from the reference's section 1.2: every condition, names, sizes."""

PAIR = "a\nb\na -> b"

TABLES = {
    "all conditions hold": (PAIR, "why a b = chained\nvertices = Source: a -> b\nends ="),
    "1: chaining is off": (f"{PAIR}\nset pipeline.operator-chaining.enabled false",
     "why a b = 1\nvertices = Source: a | b\nedges = POINTWISE FORWARD PIPELINED_BOUNDED"),
    "1: chaining is off by the old key": (f"{PAIR}\nset pipeline.operator-chaining false",
     "why a b = 1\ntext a b = pipeline.operator-chaining.enabled is false"),
    "2: a union": ("a\nb\nc\na -> c\nb -> c",
     "why a c = 2\nwhy b c = 2\nvertices = Source: a | Source: b | c\n"
     "text a c = 'c' has 2 in-edges, a chained one has one"),
    "2: two inputs": ("a\nb\nc\na -> c\nb -> c 1", "why a c = 2\nwhy b c = 2"),
    "2: a union of a stream with itself": ("a\nb\na -> b\na -> b", "why a b = 2\nends = a>b | a>b"),
    "2: one that draws sources in still has one in-edge of others": (
        "s\na\nm head-with-sources\ns -> a\na -> m\ns -> m 1",
        "why a m = 2\nwhy s m = 2\nwhy s a = chained",
    ),
    "3: another slot sharing group": ("a\nb in g\na -> b", "why a b = 3\nslots = default 1 | g 1\n"
     "text a b = 'a' and 'b' are in the slot sharing groups 'default' and 'g'"),
    "3: a group that is inherited is the same": ("a in g\nb\na -> b",
     "why a b = chained\nslots = g 1"),
    "4: yielding behind a legacy source": ("a legacy-source\nb yielding\na -> b",
     "why a b = 4\nvertices = Source: a | b"),
    "4: yielding in a chain that a legacy source heads": (
        "a legacy-source\nb\nc yielding\na -> b\nb -> c",
        "why a b = chained\nwhy b c = 4\nvertices = Source: a -> b | c",
    ),
    "4: the chain broke before": ("a legacy-source\nb head\nc yielding\na -> b\nb -> c",
     "why a b = 5\nwhy b c = chained\nvertices = Source: a | b -> c"),
    "4: yielding behind a new source": ("a\nb yielding\na -> b", "why a b = chained"),
    "5: the upper one never": ("a\nb never\nc\na -> b\nb -> c",
     "why a b = 5\nwhy b c = 5\nvertices = Source: a | b | c\n"
     "text b c = the chaining strategy of 'b' is never"),
    "5: the lower one starts a new chain": ("a\nb head\nc\na -> b\nb -> c",
     "why a b = 5\nwhy b c = chained\nvertices = Source: a | b -> c"),
    "5: a source that never chains": ("a never\nb\na -> b", "why a b = 5"),
    "5: head-with-sources behind an operator": ("s\na\nm head-with-sources\ns -> a\na -> m",
     "why a m = 5\nvertices = Source: s -> a | m"),
    "5: head-with-sources behind a legacy source": ("s legacy-source\nm head-with-sources\ns -> m",
     "why s m = 5"),
    "5: a legacy source is a head and chains what follows": ("s legacy-source\na\ns -> a",
     "why s a = chained"),
    "6: parallelisms differ": ("a*2\nb*3\na -> b",
     "why a b = 6\npartitioners = rebalance\ntext a b = the parallelisms differ, 2 and 3"),
    "6: max parallelisms differ, as allowed": ("a*2/4\nb*2/8\na -> b",
     "why a b = chained\nsizes a = 2/4\nmax b = 4 fixed"),
    "6: max parallelisms differ, as not allowed": (
        "a*2/4\nb*2/8\na -> b\nset pipeline.operator-chaining.chain-operators-with-different-"
        "max-parallelism false",
        "why a b = 6\ntext a b = the max parallelisms differ, 4 and 8, and the options keep such "
        "apart",
    ),
    "6: a max parallelism beside an unset one": (
        "a*2\nb*2/8\na -> b\nset pipeline.operator-chaining.chain-operators-with-different-"
        "max-parallelism false",
        "why a b = 6\nsizes a = 2/-\nsizes b = 2/8",
    ),
    "6: equal max parallelisms with that option": (
        "a*2/8\nb*2/8\na -> b\nset pipeline.operator-chaining.chain-operators-with-different-"
        "max-parallelism false",
        "why a b = chained",
    ),
    "7: a keyBy even at parallelism 1": ("a\nb\na -> b hash",
     "why a b = 7\nedges = ALL_TO_ALL HASH PIPELINED_BOUNDED"),
    "7: rebalance": ("a\nb\na -> b rebalance", "why a b = 7"),
    "7: rescale": ("a\nb\na -> b rescale", "why a b = 7"),
    "7: broadcast": ("a\nb\na -> b broadcast", "why a b = 7"),
    "7: a stated batch exchange": ("a\nb\na -> b blocking",
     "why a b = 7\nedges = POINTWISE FORWARD BLOCKING\n"
     "text a b = the exchange mode is BATCH (blocking)"),
    "7: a stated pipelined exchange": ("a\nb\na -> b pipelined", "why a b = chained"),
    "7: a batch job chains what states nothing": (f"{PAIR}\nset execution.runtime-mode BATCH",
     "why a b = chained"),
    "8: another edge at the same input of one that draws sources in": (
        "s\nt\nm head-with-sources\ns -> m\nt -> m",
        "why s m = 8\nwhy t m = 8\nvertices = Source: s | Source: t | m",
    ),
    "sources drawn in": ("s\nt\nm head-with-sources\ns -> m 0\nt -> m 1",
     "why s m = chained\nwhy t m = chained\nvertices = m [Source: s, Source: t]\n"
     "operators m = m s t\nends ="),
    "one of two sources is drawn in": ("s\nt*2\nm head-with-sources\ns -> m 0\nt -> m 1",
     "why s m = chained\nwhy t m = 6\nvertices = Source: t | m [Source: s]"),
    "a source with two outputs is not drawn in": (
        "s\nt\nm head-with-sources\nb\ns -> m 0\nt -> m 1\ns -> b",
        "why s m = 2\nwhy t m = chained\nvertices = Source: s -> b | m [Source: t]",
    ),
    "what follows one that draws in": ("s\nm head-with-sources\nb\ns -> m\nm -> b",
     "vertices = m [Source: s] -> b\noperators s = m s b"),
    "name of a fan-out": ("A operator\nB\nC\nD\nA -> B\nA -> C\nC -> D".replace(" operator", ""),
     "vertices = Source: A -> (B, C -> D)\noperators A = A B C D"),
    "name of a fan-out within a fan-out": ("a\nb\nc\nd\ne\na -> b\na -> c\nb -> d\nb -> e",
     "vertices = Source: a -> (b -> (d, e), c)"),
    "names of sinks": ("a\nb sink\nc classic-sink\na -> b\na -> c hash",
     "names = Source: a | b: Writer | Sink: c\nvertices = Source: a -> b: Writer | Sink: c"),
    "an index prefix, topological": ("a\nb\nc\nd\na -> c hash\nb -> d hash\na -> d hash\n"
     "set pipeline.vertex-name-include-index-prefix true",
     "vertices = [vertex-0]Source: a | [vertex-1]Source: b | [vertex-2]c | [vertex-3]d"),
    "sizes are those of the head": ("a*2/16\nb*2\nc*2/32\na -> b\nb -> c",
     "sizes c = 2/16\nvertices = Source: a -> b -> c"),
    "the max parallelism of the job": ("a*2\nb*2/8\na -> b hash\nset pipeline.max-parallelism 20",
     "sizes a = 2/20\nsizes b = 2/8\nmax a = 20 fixed"),
    "an edge out of a chain leaves from the member": ("a\nb\nc*2\nd*2\na -> b\nb -> c\na -> d",
     "ends = b>c | a>d\nvertices = Source: a -> b | c | d"),
}  # fmt: skip

GRAPHS = {
    "no partitioner": ("a*2\nb*2\nc*4\na -> b\nb -> c", "partitioners = forward rebalance"),
    "patterns and ships": (
        "a\nb\nc\nd\ne\nf\na -> b rescale\nb -> c shuffle\nc -> d global\nd -> e custom\n"
        "e -> f broadcast",
        "edges = POINTWISE RESCALE PIPELINED_BOUNDED | ALL_TO_ALL SHUFFLE PIPELINED_BOUNDED | "
        "ALL_TO_ALL GLOBAL PIPELINED_BOUNDED | ALL_TO_ALL CUSTOM PIPELINED_BOUNDED | "
        "ALL_TO_ALL BROADCAST PIPELINED_BOUNDED",
    ),
    "exchanges of a batch job": (
        "a\nb\nc\nd\ne\na -> b hash\nb -> c hash pipelined\nc -> d hash hybrid_full\n"
        "d -> e hash hybrid_selective\nset execution.runtime-mode batch",
        "edges = ALL_TO_ALL HASH BLOCKING | ALL_TO_ALL HASH PIPELINED_BOUNDED | "
        "ALL_TO_ALL HASH HYBRID_FULL | ALL_TO_ALL HASH HYBRID_SELECTIVE",
    ),
    "an approximate exchange": ("a\nb\na -> b hash pipelined_approximate",
     "edges = ALL_TO_ALL HASH PIPELINED_APPROXIMATE"),
    "a pointwise input forbids unaligned on all inputs": ("a\nb\nc\na -> c rescale\nb -> c hash",
     "unaligned = no no"),
    "a broadcast input too, and only of its own receiver": (
        "a\nb\nc\nd\na -> c broadcast\nb -> c hash\nc -> d hash",
        "unaligned = no no yes",
    ),
    "groups: own, inherited, default": (
        "a in g\nb\nc in h\nd\na -> b hash\nb -> d hash\nc -> d hash",
        "groups = g g h default\nslots = g 1 | h 1 | default 1",
    ),
    "groups: inputs that agree": ("a in g\nb in g\nc\na -> c hash\nb -> c hash 1",
     "groups = g g g"),
    "slots: the largest parallelism of each group": (
        "a*2\nb*5\nc*3 in g\nd*4\na -> b\nb -> c\nc -> d",
        "slots = default 5 | g 4",
    ),
    "slots of a batch job: a group for each pipelined region": (
        "a*2\nb*3\nc*4\na -> b\nb -> c pipelined\nset execution.runtime-mode batch",
        "slots = default 2 | default-2 4",
    ),
    "slots of a batch job: a stated group stays one": (
        "a*2\nb*3 in g\na -> b\nset execution.runtime-mode batch",
        "slots = default 2 | g 3",
    ),
    "order: sources first, then depth first": (
        "a\nb\nc\nd\ne\na -> c hash\nc -> e hash\na -> d hash\nb -> d hash",
        "vertices = Source: a | Source: b | c | e | d",
    ),
    "order: a consumer waits for its last input": (
        "a\nb\nc\nd\na -> d hash\na -> b hash\nb -> c hash\nc -> d hash",
        "vertices = Source: a | b | c | d",
    ),
    "order: declared late, read early": ("z\ny\na\nb\na -> z hash\nb -> y hash",
     "vertices = Source: a | Source: b | z | y"),
    "order: results of chained members come before the head's own": (
        "a\nb\nc\nd\na -> c hash\na -> b\nb -> d hash",
        "vertices = Source: a -> b | d | c",
    ),
    "results: one an edge": ("a*2\nb\nc\na -> b hash\na -> c hash", "results = a*2 0 | a*2 1"),
    "results: blocking ones are shared": (
        "a*2\nb*3\nc*3\nd*4\na -> b hash blocking\na -> c hash blocking\na -> d hash blocking",
        "results = a*2 0 1 | a*2 2",
    ),
    "results: another partitioner is another result": (
        "a*2\nb*3\nc*3\na -> b hash blocking\na -> c rebalance blocking",
        "results = a*2 0 | a*2 1",
    ),
    "max parallelism: Flink's default": ("a*100\nb*200\na -> b",
     "max a = 256 default\nmax b = 512 default"),
    "max parallelism: set by the user": ("a*3/3\nb*3/5\na -> b hash", "max a = 3 fixed"),
}  # fmt: skip
