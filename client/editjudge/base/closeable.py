"""What is closed at the end of a `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Closeable(ABC):
    """A context manager that is closed at the end of its block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release what it holds open."""
