"""What a page shows and no test here can run, with the test or check that runs it instead."""

from __future__ import annotations

from typing import NamedTuple


class Elsewhere(NamedTuple):
    """A command, or a block of Python, that is run somewhere else.

    Attributes
    ----------
    begins : str
        How the command begins; a part of the block of Python.
    runs : str
        File that runs it, and behind ``::`` a test in it.
    mentions : str
        What that file says of the command, word for word.
    why : str
        Why it is not run here.
    """

    begins: str
    runs: str
    mentions: str
    why: str


TABLE = (
    Elsewhere("flowcontrol tune", "tests/cli/test_tune.py", '"tune"',
     "it needs the extra tune, and sixty runs take a while"),
    Elsewhere("flowcontrol scale conf/daily-curve.yaml", "tests/conf/test_scaling_conf.py",
     '"daily-curve"', "it runs the day twice; its command is that of tests/cli/test_scale.py"),
    Elsewhere("./run-tests.sh", ".ci/run", "run-tests.sh", "it runs this test"),
    Elsewhere(
        "scripts/matrix.sh",
        "tests/house/test_supported.py",
        '"matrix.sh"',
        "it installs each version of Spark, for half an hour; the page is made of its results",
    ),
    Elsewhere("pip install", "scripts/build.sh", 'install "${wheel}[virtual,metrics]"',
     "it needs the wheel, which scripts/build.sh builds, installs and tries"),
    Elsewhere("./spark-submit.sh --master spark://", "scripts/matrix.py", "spark://",
     "it needs a cluster; scripts/matrix.sh starts one"),
    Elsewhere(
        "bootstrap=$(scripts/kafka.sh start)",
        "tests/kafka/conftest.py",
        '"kafka.sh"',
        "it needs a broker; the tests of Kafka start one, and one for all of them",
    ),
    Elsewhere("scripts/kafka.sh topic", "tests/kafka/test_orders.py", '"topic"',
     "it needs the broker"),
    Elsewhere("seq 100000 |", "tests/kafka/test_orders.py", '"produce"', "it needs the broker"),
    Elsewhere('./spark-submit.sh --jars "$(scripts/kafka.sh jars)" pipelines/kafka_orders.py',
     "tests/kafka/conftest.py", '"spark-submit.sh"', "it needs the broker"),
    Elsewhere("scripts/kafka.sh stop", "tests/kafka/test_broker.py", '"stop"',
     "it needs the broker"),
    Elsewhere(
        "... pipelines/kafka_orders.py",
        "tests/kafka/test_orders.py",
        '"--rate"',
        "it needs the broker, and goes on for ever",
    ),
    Elsewhere(
        "flowcontrol watch /lake",
        "tests/link_monitoring/test_cli.py",
        '"watch"',
        "it needs links that run, and goes on for ever",
    ),
    Elsewhere("events.writeStream.foreachBatch(link.sender",
     "tests/link_live/test_readme.py::test_the_example_moves_every_row_once",
     'link.sender("events")', "it needs a stream of events and a sink, and stops by itself never"),
    Elsewhere("link.publish(spark",
     "tests/link_live/test_readme.py::test_the_example_moves_every_row_once", "link.publish",
     "it needs a link that is in use"),
    Elsewhere("./spark-submit.sh examples/slow_sink.py", "tests/link_live/test_slow_sink.py",
     "examples/slow_sink.py", "it takes minutes"),
    Elsewhere(
        "bench/real_flink/run.sh",
        "tests/real_flink/test_run_sh.py",
        '"run.sh"',
        "it fetches Flink and runs it for half an hour",
    ),
    Elsewhere("python bench/random_flink.py", "tests/real_flink/test_random.py", "random_flink",
     "it runs each job on Flink for a minute"),
    Elsewhere("bench/real_systems/run.sh", "tests/real_systems/test_run.py", '"run.sh"',
     "it fetches a system and runs it for a minute"),
    Elsewhere("link.create_view(spark", "tests/link_monitoring/test_view.py", "create_view(",
     "it needs a link that is in use"),
    Elsewhere("LinkListener(", "tests/link_monitoring/test_listener.py", "LinkListener(",
     "it needs queries that run"),
)  # fmt: skip
