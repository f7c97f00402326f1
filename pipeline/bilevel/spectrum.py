"""Eigenvalue estimates that the iterative solvers give away: Ritz values on the Krylov spaces they walk.

Notation: V_k = (I - gamma H)^k V_0 are the Neumann terms and U_k = gamma H V_k their products; a_k and b_k are the
steps and ratios of conjugate gradient.
"""

import math

import torch

from pipeline.bilevel.vectors import Vector, dot


class NeumannSpectrum:
    """The largest Ritz value of gamma H on the spaces span(V_k, U_k) seen so far: gamma * lambda_max from below.

    Two steps of Lanczos need the moments m_j = V.(gamma H)^j V / V.V up to j = 3. As gamma H U_k = U_k - U_k+1, they
    are V_k.U_k, U_k.U_k and U_k.U_k - U_k.U_k+1, so the estimate trails one term and memory holds one more vector.
    """

    def __init__(self) -> None:
        self.gamma_lambda_max: float | None = None
        self._before: Vector = []
        self._moments: list[float] = []

    def extend(self, v: Vector, product: Vector) -> None:
        """Take V_k and U_k."""
        length = dot(v, v)
        if length == 0.0:
            return
        if self._before:
            previous, m1, m2 = self._moments
            self._keep(two_step_lanczos(m1, m2, m2 - dot(self._before, product) / previous))
        self._before, self._moments = product, [length, dot(v, product) / length, dot(product, product) / length]
        self._keep(self._moments[1])

    def _keep(self, ritz: float) -> None:
        self.gamma_lambda_max = ritz if self.gamma_lambda_max is None else max(self.gamma_lambda_max, ritz)


def two_step_lanczos(m1: float, m2: float, m3: float) -> float:
    """The larger eigenvalue of [[a, b], [b, c]]: a = m_1, b^2 = m_2 - m_1^2, c = (m_3 - 2 a m_2 + a^2 m_1) / b^2."""
    squared = m2 - m1**2
    if squared <= 1e-6 * m2:  # V is an eigenvector, as far as the dot products can tell
        return m1
    corner = (m3 - 2 * m1 * m2 + m1**3) / squared
    return (m1 + corner) / 2 + math.sqrt(((m1 - corner) / 2) ** 2 + squared)


class LanczosMatrix:
    """The tridiagonal matrix of conjugate gradient: 1/a_k + b_k-1/a_k-1 on the diagonal, sqrt(b_k)/a_k beside it."""

    def __init__(self) -> None:
        self.diagonal: list[float] = []
        self.beside: list[float] = []
        self.carried = 0.0

    def extend(self, step: float, ratio: float) -> None:
        self.diagonal.append(1.0 / step + self.carried)
        self.beside.append(math.sqrt(ratio) / step)
        self.carried = ratio / step

    def lambda_max(self) -> float | None:
        """The largest Ritz value, a lower bound of the largest eigenvalue."""
        if not self.diagonal:
            return None
        beside = torch.tensor(self.beside[:-1], dtype=torch.float64)
        matrix = torch.diag(torch.tensor(self.diagonal, dtype=torch.float64)) + beside.diag(1) + beside.diag(-1)
        return float(torch.linalg.eigvalsh(matrix)[-1])
