"""Faults and fakes for tests: ours, and those of whoever builds on this package. Imported by nothing else."""

from hive_ingest.testing.faults import CrashPoint, FaultError, FaultRecorder, arm_from_environment, faults
from hive_ingest.testing.lossy_client import AnswerLost

__all__ = ["AnswerLost", "CrashPoint", "FaultError", "FaultRecorder", "arm_from_environment", "faults"]
