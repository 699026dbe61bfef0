from flowcontrol.analysis.causes import Finding as Finding
from flowcontrol.analysis.causes import root_cause as root_cause
from flowcontrol.calibration.calibrate import fit_scenario as fit_scenario
from flowcontrol.protocol.monitoring import BackPressureSampler as BackPressureSampler
from flowcontrol.protocol.monitoring import MeterView as MeterView
from flowcontrol.protocol.monitoring import data_skew as data_skew
from flowcontrol.protocol.monitoring import pressure_level as pressure_level

__all__: list[str]
