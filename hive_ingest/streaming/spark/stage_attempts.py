"""Whether all tasks of a stage have read the same version of the rows that were shuffled for it.

When an executor is lost, so is its part of a shuffle. Spark computes that part again for the tasks that have not read
it yet. If the rows differ then (`dropDuplicates` keeps whichever row comes first), what the tasks write together has
some rows twice and lacks others. Newer versions of Spark compare checksums of the two versions and fail the job
(SPARK-53575); older ones do not notice.
"""

from __future__ import annotations

import logging
import time

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hive_ingest.streaming.spark.session import is_connect

_log = logging.getLogger(__name__)

_CHECKSUMS = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
#: Spark's status follows the events of its scheduler, usually within milliseconds.
_STATUS_SECONDS = 10.0
_POLL_SECONDS = 0.05


def may_mix_versions(session: SparkSession, stage_id: int) -> bool:
    """Whether some tasks of a finished stage may have read other rows than the rest, without Spark noticing it.

    False where that cannot be known: in Spark Connect, and where Spark no longer has the status of the stage.
    """
    if is_connect(session) or _compares_checksums(session):
        return False
    tracker = session.sparkContext.statusTracker()
    deadline = time.monotonic() + _STATUS_SECONDS
    while time.monotonic() < deadline:
        stage = tracker.getStageInfo(stage_id)
        if stage is not None and stage.currentAttemptId > 0:
            return True
        if stage is not None and stage.numCompletedTasks >= stage.numTasks:
            return False
        time.sleep(_POLL_SECONDS)
    _log.warning("Spark does not show whether stage %d was repeated after the loss of an executor", stage_id)
    return False


def _compares_checksums(session: SparkSession) -> bool:
    try:
        return all(session.conf.get(name) == "true" for name in _CHECKSUMS)
    except (PySparkException, Py4JJavaError):  # this version does not have them
        return False
