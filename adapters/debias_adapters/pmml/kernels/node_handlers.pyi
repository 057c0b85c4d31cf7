from collections.abc import Callable
from typing import Any

class NodeHandlers:
    def __init__(
        self,
        tree: Any,
        names: dict[str, str],
        codes: dict[str, int],
        without_field: dict[str, int],
        fields: dict[str, str],
        on_part: Callable[[str, dict[str, str], int | None], None],
        on_end: Callable[[], None],
        keeps_names: bool,
    ) -> None: ...
    def start(self, name: str, attributes: dict[str, str]) -> None: ...
    def end(self, name: str) -> None: ...
    def add(self, attributes: dict[str, str]) -> None: ...
