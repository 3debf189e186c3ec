"""The cost of a run: CPU time, and resident memory at a price. The prices are those of the library's modes, one for
each HAKMEM_MODE; the policy library has them (src/policy/price.h)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence

from hakmem import option_warnings
from hakmem.allocators import MODE_VARIABLE, Allocator, name_in_mode
from hakmem.metrics import CPU, MEAN, WALL, Figures, Metric, seconds
from hakmem.policy_library import MODES, PolicyLibrary

_NS = 1e-9
_MIB = 1024.0 * 1024.0


@dataclass(frozen=True)
class Price:
    """The price of a MiB-second of resident memory in a mode, in ns of CPU time."""

    mode: str
    ns_per_mib_second: int

    @property
    def metric(self) -> Metric:
        """The cost at this price, as a figure of a run."""
        return Metric(f"cost_{self.mode}_seconds", f"cost at the {self.mode} price", seconds)

    @property
    def entrant(self) -> str:
        """The name of hakmem in the mode of this price."""
        return name_in_mode(self.mode)

    def cost(self, figures: Figures) -> Optional[float]:
        """The cost in seconds of CPU time. None when the run did not end, or was too short for a mean of its memory."""
        cpu, mean, wall = (figures.get(metric.key) for metric in (CPU, MEAN, WALL))
        if cpu is None or mean is None or wall is None:
            return None
        return cpu + self.ns_per_mib_second * _NS * mean / _MIB * wall


def prices() -> List[Price]:
    """The prices of the modes, the lowest first. A Failure when the policy library is not built."""
    library = PolicyLibrary()
    return [Price(mode, library.price(mode, None)) for mode in MODES]


def costs(figures: Figures, at: Sequence[Price]) -> Dict[str, Optional[float]]:
    """A run's cost at each price, by the metric's key."""
    return {price.metric.key: price.cost(figures) for price in at}


def unknown_mode(allocators: Sequence[Allocator], environment: Mapping[str, str]) -> Optional[str]:
    """A note when the library has no modes: its line on stderr names an unknown option."""
    ours = next(allocator for allocator in allocators if allocator.mode is not None)
    warned = option_warnings.of(str(ours.library), {**environment, **dict(ours.variables)})
    if not any(warning.startswith(MODE_VARIABLE) for warning in warned):
        return None
    return f"this library does not know {MODE_VARIABLE}: hakmem's rows of the three modes are all the default's"
