"""A metastore client whose answers get lost: the call takes effect, the caller sees a broken connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Self

from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient


class AnswerLost:
    """Wraps a client. `lose={"commit_txn": 2}` drops the answers to the first two calls of that name.

    `after` runs between the effect and the loss. The fault point `commit_before_answer` is reached each time a
    `commit_txn` has taken effect. Clones count together.
    """

    def __init__(
        self,
        client: MetastoreClient,
        lose: Mapping[str, int] | None = None,
        *,
        after: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._lose = Counter(dict(lose or {}))
        self._after = after
        self.calls: Counter[str] = Counter()

    def clone(self) -> AnswerLost:
        """One for another thread, as unlucky as this one."""
        other = AnswerLost(self._client.clone(), after=self._after)
        other._lose, other.calls = self._lose, self.calls
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in self._lose and name != "commit_txn":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            answer = found(*args, **kwargs)
            if name == "commit_txn":
                reach("commit_before_answer")
            if self._lose[name] <= 0:
                return answer
            self._lose[name] -= 1
            if self._after is not None:
                self._after()
            raise MetastoreUnavailable(f"the answer to {name} was lost (on purpose)")

        return call
