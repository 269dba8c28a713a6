"""Candidate rows with pods taken away and given back, and whether the preemptor fits then.

Axes: C candidate rows.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.core.feasibility import nominated_pods
from scheduler.core.feasibility.filters import judge
from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int, Rows

__all__ = ["WhatIf"]


class WhatIf:
    """What-if copies of candidate rows: with the nominated pods, and without where that matters."""

    def __init__(
        self,
        pod: Pod,
        cluster: Cluster,
        predicates: Sequence[tuple[str, CompiledFilter]],
        rows: Rows,
    ) -> None:
        self._predicates = predicates
        self._changing = [each for _, each in predicates if each.reads is not Reads.NODE]
        self._claims = nominated_pods.layers_on(rows, pod, cluster)
        self._copies = [cluster.hypothesis(rows)]
        if self._claims and not all(each.monotone for each in self._changing):
            # A rule that more pods can satisfy must also hold when the nominated ones never come.
            self._copies.append(cluster.hypothesis(rows))

    def change(self, slots: Int, sign: int) -> None:
        """Give back (+1) or take away (-1) one pod a row; -1 for rows that do not change."""
        for copy in self._copies:
            copy.change(slots, sign)

    def codes(self) -> Codes:
        """Return, (C,), the verdict on each row with all filters.

        To be asked first, when all that can leave have left: only then the nominated pods come.
        Host ports are not counted, so a pod that leaves later would free those of a nominated one.
        """
        for layer in self._claims:
            self._copies[0].change(layer, +1)
        self._claims = []
        codes = judge(self._copies[0], self._predicates)
        for copy in self._copies[1:]:
            codes = np.where(codes == 0, judge(copy, self._predicates), codes)
        return codes

    def fits(self) -> Bool:
        """Return, (C,), where the preemptor fits, by the filters that pods can change."""
        fits = np.ones(len(self._copies[0]), dtype=np.bool_)
        for copy in self._copies:
            for predicate in self._changing:
                fits &= predicate.fits(copy)
        return fits
