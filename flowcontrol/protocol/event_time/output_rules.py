"""What leaves a generator, the splits of a source or a valve: each rule returns a sum of bits.

A caller sends what they stand for in this order: ACTIVE, then WATERMARK, which is the ``watermark``
of the state, then IDLE.

Source: ``WatermarkToDataOutput`` and ``TimestampsAndWatermarksOperator`` of Flink 1.20; sections 6
of checkpoints-and-time and 14 of flink-network.
"""

from flowcontrol.protocol.event_time.states import WatermarkOutput

ACTIVE = 1
"""The status ACTIVE: there will be watermarks again."""
WATERMARK = 2
"""A watermark, later than all before."""
IDLE = 4
"""The status IDLE: until ACTIVE there will be no watermark; do not wait for one."""


def advance(output: WatermarkOutput, watermark: int) -> int:
    """Give a watermark out if it is later than the last one; what was idle is active then.

    Returns
    -------
    int
        0, WATERMARK, or ACTIVE and WATERMARK. One that is not later leaves what is idle idle.
    """
    if watermark <= output.watermark:
        return 0
    output.watermark = watermark
    return become_active(output) | WATERMARK


def become_active(output: WatermarkOutput) -> int:
    """Give ACTIVE out if the last status was IDLE."""
    if output.is_idle == 0:
        return 0
    output.is_idle = 0
    return ACTIVE


def become_idle(output: WatermarkOutput) -> int:
    """Give IDLE out if the last status was ACTIVE."""
    if output.is_idle == 1:
        return 0
    output.is_idle = 1
    return IDLE
