"""The keys of Flink's autoscaler."""

from dataclasses import asdict

import pytest

from flowcontrol.scenario.scaling_models import OPTIONS, read_autoscaler

MINUTE = 60_000_000


def test_defaults_are_flinks():
    found = asdict(read_autoscaler({}))
    assert found == {
        "version": "head",
        "scaling_enabled": True,
        "metrics_window": 15 * MINUTE,
        "stabilization_interval": 5 * MINUTE,
        "utilization_target": 0.7,
        "target_utilization_boundary": 0.3,
        "utilization_max": None,
        "utilization_min": None,
        "scale_down_interval": 60 * MINUTE,
        "vertex_min_parallelism": 1,
        "vertex_max_parallelism": 200,
        "scale_down_max_factor": 0.6,
        "scale_up_max_factor": 100_000.0,
        "catch_up_duration": 30 * MINUTE,
        "restart_time": 5 * MINUTE,
        "restart_time_tracking_enabled": False,
        "restart_time_tracking_limit": 15 * MINUTE,
        "backlog_processing_lag_threshold": 5 * MINUTE,
        "observed_true_processing_rate_lag_threshold": MINUTE // 2,
        "observed_true_processing_rate_switch_threshold": 0.15,
        "observed_true_processing_rate_min_observations": 2,
        "scaling_effectiveness_detection_enabled": False,
        "scaling_effectiveness_threshold": 0.1,
        "history_max_count": 3,
        "history_max_age": 24 * 60 * MINUTE,
        "metrics_busy_time_aggregator": "max",
        "vertex_exclude_ids": (),
        "scaling_parallelism_alignment_mode": None,
        "scaling_key_group_partitions_adjust_mode": None,
        "observed_scalability_enabled": False,
        "observed_scalability_min_observations": 3,
        "observed_scalability_coefficient_min": 0.5,
    }
    assert read_autoscaler({}).band == pytest.approx((0.4, 1.0))


def test_old_keys_and_prefixes_are_read():
    found = read_autoscaler(
        {
            "kubernetes.operator.job.autoscaler.metrics.window": "3 min",
            "job.autoscaler.target.utilization": "0.6",
            "job.autoscaler.vertex.exclude.ids": "a, b",
            "job.autoscaler.scaling.parallelism-alignment.mode": False,
        }
    )
    assert found.metrics_window == 3 * MINUTE
    assert found.utilization_target == 0.6
    assert found.vertex_exclude_ids == ("a", "b")
    assert found.alignment == ("off", "head")


def test_the_mode_of_alignment_follows_key_and_version():
    old = {"job.autoscaler.scaling.key-group.partitions.adjust.mode": "MAXIMIZE_UTILISATION"}
    assert read_autoscaler({}).alignment == ("balanced", "head")
    assert read_autoscaler({}, "1.15").alignment == ("evenly_spread", "1.15")
    assert read_autoscaler(old).alignment == ("maximise_utilisation", "1.15")
    new = {"job.autoscaler.scaling.parallelism-alignment.mode": "EVENLY_SPREAD"}
    assert read_autoscaler(old | new).alignment == ("evenly_spread", "head")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("metrics.windows", "1 s", "unknown key; did you mean 'job.autoscaler.metrics.window'?"),
        ("metrics.window", "long", "'long' is not a duration"),
        ("vertex.min-parallelism", 0, "0 is out of range"),
        ("vertex.min-parallelism", 300, "300 is more than vertex.max-parallelism, 200"),
        ("utilization.target", 1.5, "1.5 is out of range"),
        ("utilization.max", 0.6, "0.7 is not between utilization.min, 0.4, and utilization.max"),
        ("quota.cpu", 8, "most processors of a job is not emulated: leave it out"),
        ("quota.memory", "4 gb", "most memory of a job is not emulated: leave it out"),
        ("excluded.periods", "9:00:00-10:00:00", "nothing is scaled is not emulated"),
        ("memory.tuning.enabled", True, "is not emulated"),
        ("metrics.busy-time.aggregator", "MEDIAN", "'MEDIAN' is not one of max, avg, min"),
        ("vertex.exclude.ids", 3, "3 is not a list of names"),
    ],
)
def test_it_refuses_with_key_value_and_remedy(key, value, text):
    with pytest.raises(ValueError) as error:
        read_autoscaler({f"job.autoscaler.{key}": value})
    assert str(error.value).startswith("job.autoscaler.")
    assert text in str(error.value)


def test_it_refuses_what_stands_twice_and_what_is_no_key():
    twice = {"job.autoscaler.target.utilization": 0.6, "job.autoscaler.utilization.target": 0.6}
    with pytest.raises(ValueError, match="a second time"):
        read_autoscaler(twice)
    with pytest.raises(ValueError, match="unknown key"):
        read_autoscaler({"metrics.window": "1 s"})
    with pytest.raises(ValueError, match="is not one of head"):
        read_autoscaler({}, "2")
    mode = {"job.autoscaler.scaling.parallelism-alignment.mode": "balanced"}
    with pytest.raises(ValueError, match="unknown in 1"):
        read_autoscaler(mode, "1.15")


def test_what_blocks_at_its_default_only_is_read():
    assert read_autoscaler({"job.autoscaler.memory.gc-pressure.threshold": 1}).scaling_enabled
    assert {one.effect for one in OPTIONS.values()} == {"emulated", "none", "refused"}
