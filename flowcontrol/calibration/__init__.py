"""From a running job to a scenario: figures read, fitted, contradicted, predicted, compared.

Figures come from a Flink's REST API (:mod:`.flink_rest`), the progress of Spark's queries
(:mod:`.spark_progress`) and the ledger of a link (:mod:`.link_ledger`). Each becomes a
:class:`~flowcontrol.calibration.draft.Draft`: a scenario as a mapping, the origin and the error of
each of its figures, and what the input itself says of the job, which the scenario's run has to
predict.
"""
